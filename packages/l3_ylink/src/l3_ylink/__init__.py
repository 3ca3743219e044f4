"""YLink: data and training toolchain (gather, purify, tokenise; plan, pretrain, fine-tune, align)."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The names of `api`, loaded when one is first asked for."""
    if name.startswith("_") or name == "api":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(".api", __name__), name)
