"""Which of two ways the hot loops run: compiled by numba where it is installed, else as numpy arrays.

Both give the same results to the bit (tested), since they compute in integers.  Compiling takes some
seconds the first time on a machine, so nobody waits for it: by default arrays are used until `warm` has
been called, and for small pools always.
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

_state: dict[str, str] = {"way": "auto", "warm": ""}


def use(way: Way) -> None:
    """Chooses for this process: `numba`, `numpy`, or compiled loops for large pools once warm (`auto`)."""
    if way == "numba" and not available():
        raise ValueError("numba is not installed")
    _state["way"] = way


def available() -> bool:
    """Whether numba is installed."""
    return find_spec("numba") is not None


def warm() -> bool:
    """Compiles the loops, or reads them from disk; False where numba is not installed.

    May run in a thread of its own.
    """
    if not available():
        return False
    loops().compile_all()
    fragment_loops().compile_all()
    _state["warm"] = "yes"
    return True


def compiled(nodes: int) -> bool:
    """Whether loops over a pool of this size are compiled."""
    way = _state["way"]
    return way == "numba" or (way == "auto" and nodes >= LEAST_NODES and bool(_state["warm"]))


@lru_cache(maxsize=1)
def fragment_loops() -> ModuleType:
    """The compiled arithmetic of fragments."""
    return import_module(".compiled", __package__)


@lru_cache(maxsize=1)
def loops() -> ModuleType:
    """The compiled choice of nodes for a gang."""
    return import_module(".compiled_gang", __package__)
