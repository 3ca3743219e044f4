"""A state (nested dicts, lists, tuples, numbers, texts, tensors, arrays) as a plan and a list of arrays.

No pickle: what comes back is plain values and arrays, whoever wrote the file.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from l2_aistation._kit.problems import BadInput

_DEEPEST = 100


@dataclass(slots=True)
class Flat:
    """`plan` is plain JSON; `arrays` are the leaves that it numbers, torch tensors and numpy arrays."""

    plan: Any
    arrays: list[Any] = field(default_factory=list)


def flatten(state: Any) -> Flat:
    """Takes a state apart.  Raises `BadInput` naming the place of a value that no checkpoint can hold."""
    flat = Flat(None)
    flat.plan = _taken(state, flat.arrays, "state", 0)
    return flat


def build(plan: Any, arrays: list[Any]) -> Any:
    """Puts a state together again; `arrays` in the order of `flatten`."""
    tag: str = plan[0]
    value: Any = plan[1]
    if tag == "d":
        return {build(key, arrays): build(item, arrays) for key, item in value}
    if tag in "lt":
        items = [build(item, arrays) for item in value]
        return items if tag == "l" else tuple(items)
    if tag == "a":
        return arrays[value]
    if tag == "f":
        return float(value)
    if tag == "b":
        return base64.b64decode(value)
    return value


def is_tensor(value: Any) -> bool:
    """Whether it is a torch tensor, without importing torch."""
    return type(value).__module__.startswith("torch") and hasattr(value, "detach")


def _taken(value: Any, arrays: list[Any], where: str, depth: int) -> list[Any]:
    if depth > _DEEPEST:
        raise BadInput(f"is nested deeper than {_DEEPEST}", field=where, do="save a flatter state")
    if isinstance(value, dict):
        rows = [
            [
                _taken(key, arrays, f"{where} key {key!r}", depth + 1),
                _taken(item, arrays, f"{where}[{key!r}]", depth + 1),
            ]
            for key, item in value.items()
        ]
        return ["d", rows]
    if isinstance(value, (list, tuple)):
        rows = [_taken(item, arrays, f"{where}[{number}]", depth + 1) for number, item in enumerate(value)]
        return ["l" if isinstance(value, list) else "t", rows]
    if is_tensor(value) or isinstance(value, np.ndarray):
        arrays.append(value)
        return ["a", len(arrays) - 1]
    return _scalar(value, where)


def _scalar(value: Any, where: str) -> list[Any]:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return ["s", value]
    if isinstance(value, float):
        return ["s", value] if math.isfinite(value) else ["f", str(value)]
    if isinstance(value, bytes):
        return ["b", base64.b64encode(value).decode()]
    raise BadInput(
        f"is a {type(value).__name__}, which a checkpoint cannot hold",
        field=where,
        do="save numbers, texts, lists, dicts, arrays and tensors; a module gives its state_dict()",
    )
