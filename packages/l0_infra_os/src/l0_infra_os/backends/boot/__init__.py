"""Network boot: who is answered, what is loaded, and what makes an image this very node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .personality import personality, shell_order

if TYPE_CHECKING:
    from l0_infra_os.ports import Boot

__all__ = ["open_boot", "personality", "shell_order"]


def open_boot(lab_folder: Path) -> Boot:
    """Network boot of the lab in that folder."""
    from .lab import LabBoot

    return LabBoot(Path(lab_folder))
