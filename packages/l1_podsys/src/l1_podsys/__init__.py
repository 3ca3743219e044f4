"""podsys: plan, apply, verify and diagnose the system environment of an AI cluster over SSH."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .api import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """The names of `api`, imported when they are first used."""
    from importlib import import_module

    api = import_module(".api", __name__)
    if name in api.__all__:
        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
