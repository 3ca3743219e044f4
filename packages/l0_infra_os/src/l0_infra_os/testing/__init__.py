"""Published for those who add a backend: conformance kits, and a farm of machines to test with.

Subclass a kit with pytest and give its fixtures; the backend conforms when the tests pass.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .conformance import BmcContract, FabricContract, ImageStoreContract
    from .fabric import MemoryFabric
    from .farm import Farm, Machine

_PLACES = {
    "BmcContract": "conformance",
    "Farm": "farm",
    "FabricContract": "conformance",
    "ImageStoreContract": "conformance",
    "Machine": "farm",
    "MemoryFabric": "fabric",
}
__all__ = ["BmcContract", "FabricContract", "Farm", "ImageStoreContract", "Machine", "MemoryFabric"]


def __getattr__(name: str) -> Any:
    """Loads a part when it is asked for: only the kits need pytest."""
    if name in _PLACES:
        return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
