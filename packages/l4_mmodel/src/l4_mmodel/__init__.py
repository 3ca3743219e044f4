"""Model management: register, verify, evaluate, promote and serve models."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The names of `l4_mmodel.api`, loaded when first used."""
    if name.startswith("_"):
        raise AttributeError(name)
    from . import api

    if name in api.__all__:
        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
