"""Which of two ways the hot loops run: compiled by numba where it is installed, else as numpy arrays.

Both give the same results to the bit (tested), since they compute in integers.  By default small
pools stay with numpy, which is fast enough for them and needs no compiler in memory.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Literal

Way = Literal["auto", "numba", "numpy"]

LEAST_NODES = 256
"""From this size of a pool on, compiled loops pay."""

_chosen: dict[str, Way] = {"way": "auto"}


def use(way: Way) -> None:
    """Chooses for this process: `numba`, `numpy`, or by the pool's size (`auto`)."""
    if way == "numba" and not available():
        raise ValueError("numba is not installed")
    _chosen["way"] = way


@lru_cache(maxsize=1)
def available() -> bool:
    """Whether numba is installed."""
    return find_spec("numba") is not None


def compiled(nodes: int) -> bool:
    """Whether loops over a pool of this size are compiled."""
    way = _chosen["way"]
    return way == "numba" or (way == "auto" and nodes >= LEAST_NODES and available())


def loops() -> ModuleType:
    """The compiled loops."""
    return import_module(".compiled", __package__)
