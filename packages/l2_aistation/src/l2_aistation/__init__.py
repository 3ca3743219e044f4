"""Scheduling platform: one pool of accelerators, topology-aware gangs, training that heals itself."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__: str


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # slow to import, and seldom asked for

    try:
        return version("l2-aistation")
    except PackageNotFoundError:  # imported from a source tree
        return "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "__version__":
        globals()[name] = _version()  # asked for once
        return globals()[name]
    api = import_module("l2_aistation.api")
    if name in api.__all__:
        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
