"""Switches behind the `Fabric` port: Linux bridges in a network namespace of their own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from l0_infra_os.ports import Fabric

__all__ = ["open_fabric"]


def open_fabric(lab_folder: Path) -> Fabric:
    """The switches of the lab in that folder; `Unavailable` when no lab is up there."""
    from .bridges import open_bridges

    return open_bridges(Path(lab_folder))
