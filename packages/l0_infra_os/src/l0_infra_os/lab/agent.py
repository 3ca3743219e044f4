"""Puts the in-band agent's kernel and initramfs where network boot serves them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from l0_infra_os.backends.images.disk import disk_files


def make_agent(folder: Path, *, say: Callable[[str], None]) -> None:
    """`vmlinuz` and `agent.img` in the folder, made once and then from the cache."""
    folder.mkdir(parents=True, exist_ok=True)
    files = disk_files(say=say)
    for kind, name in (("vmlinuz", "vmlinuz"), ("agent", "agent.img")):
        shutil.copyfile(files[kind], folder / name)
