"""Scheduling platform: one pool of accelerators, topology-aware gangs, training that heals itself."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

try:
    __version__ = version("l2-aistation")
except PackageNotFoundError:  # imported from a source tree
    __version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    api = import_module("l2_aistation.api")
    if name in api.__all__:
        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
