"""The bytes of one rank's state: a safetensors file (https://github.com/huggingface/safetensors#format).

The same bytes lie in memory and on disk, so that writing through is a copy and any tool can read the file.
Arrays begin at multiples of 64 bytes from the start of the data.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from l2_aistation._kit.problems import BadInput, Failed

from .tree import Flat, build, flatten, is_tensor

ALIGN = 64
_NUMPY = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "bool": "BOOL",
}
_TORCH = {**_NUMPY, "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}
_NAMES = {code: name for name, code in _TORCH.items()}


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything lies: the header's bytes, each array's place in the data, and the whole size."""

    header: bytes
    places: tuple[tuple[int, int], ...]
    size: int
    flat: Flat


def lay_out(state: Any, notes: dict[str, Any]) -> Layout:
    """Plans the bytes of a state; nothing is copied.  `notes` are kept in the file's metadata."""
    flat = flatten(state)
    entries: dict[str, Any] = {}
    places = []
    end = 0
    for number, array in enumerate(flat.arrays):
        begin = -(-end // ALIGN) * ALIGN
        end = begin + _bytes_of(array)
        places.append((begin, end))
        entries[f"{number}"] = {
            "dtype": _code(array, number),
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    kinds = "".join("t" if is_tensor(array) else "n" for array in flat.arrays)
    metadata = {
        "ogai": json.dumps({"plan": flat.plan, "kinds": kinds, "notes": notes}, separators=(",", ":"))
    }
    text = json.dumps({"__metadata__": metadata, **_without_holes(entries)}, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGN)  # the format allows spaces at the end: the data are aligned
    header = len(text).to_bytes(8, "little") + text
    return Layout(header, tuple(places), len(header) + end, flat)


def _without_holes(entries: dict[str, Any]) -> dict[str, Any]:
    """The format wants data without holes: what lies between two arrays is an entry of its own."""
    end = 0
    filled = {}
    for name, entry in entries.items():
        begin, last = entry["data_offsets"]
        if begin > end:
            filled[f"pad{name}"] = {"dtype": "U8", "shape": [begin - end], "data_offsets": [end, begin]}
        filled[name] = entry
        end = last
    return filled


def write(layout: Layout, target: memoryview) -> None:
    """Copies header and arrays into `target`, which is at least `size` bytes: the one copy of a save."""
    begin = len(layout.header)
    target[:begin] = layout.header
    for array, (first, last) in zip(layout.flat.arrays, layout.places, strict=True):
        if last == first:
            continue
        part = target[begin + first : begin + last]
        if is_tensor(array):
            _copy_tensor(array, part)
        else:
            np.copyto(np.frombuffer(part, array.dtype).reshape(array.shape), array)


def read(source: memoryview) -> tuple[Any, dict[str, Any]]:
    """The state and its notes; arrays are copies.  Raises `Failed` where the bytes are damaged."""
    try:
        length = int.from_bytes(source[:8], "little")
        entries = json.loads(bytes(source[8 : 8 + length]))
        told = json.loads(entries.pop("__metadata__")["ogai"])
        data = source[8 + length :]
        arrays = [_array(entries[str(number)], data, kind) for number, kind in enumerate(told["kinds"])]
        return build(told["plan"], arrays), told["notes"]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise Failed("a checkpoint's bytes are damaged", why=repr(error)) from error


def _array(entry: dict[str, Any], data: memoryview, kind: str) -> Any:
    begin, end = entry["data_offsets"]
    if not 0 <= begin <= end <= len(data):
        raise ValueError("an array lies outside of the data")
    name = _NAMES[entry["dtype"]]
    if kind == "n":
        return np.frombuffer(data[begin:end], name).reshape(entry["shape"]).copy()
    import torch

    if begin == end:
        return torch.empty(entry["shape"], dtype=getattr(torch, name))
    raw = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.uint8)
    return raw.view(getattr(torch, name)).reshape(entry["shape"])


def _copy_tensor(tensor: Any, part: memoryview) -> None:
    import torch

    with torch.no_grad():
        target = torch.frombuffer(part, dtype=torch.uint8)
        target.view(tensor.dtype).view(tensor.shape).copy_(tensor.detach())


def _bytes_of(array: Any) -> int:
    return int(array.numel() * array.element_size() if is_tensor(array) else array.nbytes)


def _code(array: Any, number: int) -> str:
    name = str(array.dtype).removeprefix("torch.")
    code = (_TORCH if is_tensor(array) else _NUMPY).get(name)
    if code is None or (is_tensor(array) and type(array).__name__ == "DTensor"):
        what = "a DTensor" if code else f"of type {name}"
        raise BadInput(
            f"array {number} is {what}, which a checkpoint of one rank cannot hold",
            field="state",
            do="give local tensors of an ordinary type; sharded states go through save_sharded",
        )
    return code
