"""Operating system images: a content-addressed folder, and the recipes that build Debian's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .debian import build_debian, build_debian_disk, build_debian_root
    from .store import FolderImages

__all__ = ["FolderImages", "build_debian", "build_debian_disk", "build_debian_root"]


def __getattr__(name: str) -> Any:
    if name == "FolderImages":
        from .store import FolderImages

        return FolderImages
    if name in __all__:
        from . import debian

        return getattr(debian, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
