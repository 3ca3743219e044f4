"""The disk of a machine that shares the host's kernel: an overlay over an unpacked image.

The image is unpacked once for each digest and shared by all machines; what a machine writes is
its own.  `disk/` holds `image` (the digest), `storage` (whose storage segment it mounts), `upper`
and `work`.  A disk is there whole or not at all.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from l0_infra_os._kit.files import locked
from l0_infra_os.backends.boot import personality
from l0_infra_os.backends.images.cache import extracted_folder

TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


class Disk:
    """The disk in a machine's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "disk"

    @property
    def image(self) -> str | None:
        """The SHA-256 of the image on the disk, None when the disk is empty."""
        try:
            return (self.path / "image").read_text("utf-8").strip()
        except FileNotFoundError:
            return None

    @property
    def storage(self) -> str | None:
        """The tenant whose storage segment the deployed system mounts."""
        try:
            return (self.path / "storage").read_text("utf-8").strip() or None
        except FileNotFoundError:
            return None

    def is_empty(self) -> bool:
        """Looks: nothing of any system is on the disk."""
        return not self.path.exists() and not list(self.folder.glob("disk.*"))

    def lay_down(self, archive: Path, order: Mapping[str, Any]) -> None:
        """Makes the verified image and the node's personality the disk, in one step at the end.

        Runs in a mount namespace of the caller's own: the personality is written through the
        overlay, so that folders keep the owner and mode that the image gave them.
        """
        tenant = str(order.get("storage") or "")
        if tenant and not TENANT.fullmatch(tenant):
            raise ValueError(f"{tenant!r} is not the name of a storage segment")
        sha256 = str(order["image"]["sha256"])
        unpack_once(archive, sha256)
        self.erase()
        new = self.folder / "disk.new"
        for name in ("upper", "work", "root"):
            (new / name).mkdir(parents=True)
        subprocess.run(mount_command(new, sha256), check=True, capture_output=True)
        try:
            untar = [
                "tar",
                "-x",
                "-p",
                "--numeric-owner",
                "--no-overwrite-dir",
                "-C",
                str(new / "root"),
                "-f",
                "-",
            ]
            subprocess.run(untar, input=personality(order), check=True, capture_output=True)
        finally:
            subprocess.run(["umount", str(new / "root")], check=True, capture_output=True)
        (new / "image").write_text(sha256, "utf-8")
        (new / "storage").write_text(tenant, "utf-8")
        os.sync()
        new.rename(self.path)

    def erase(self) -> int:
        """Removes everything on the disk and gives the number of bytes that went."""
        dropped = 0
        for path in [self.path, *self.folder.glob("disk.*")]:
            dropped += _bytes_under(path)
            if path == self.path and path.exists():
                path = path.rename(self.folder / "disk.old")  # noqa: PLW2901 (gone at once, as a whole)
            shutil.rmtree(path, ignore_errors=True)
        return dropped


def mount_command(disk: Path, sha256: str) -> list[str]:
    """Mounts the disk at its `root` folder."""
    lower = extracted_folder(sha256)
    options = f"lowerdir={lower},upperdir={disk / 'upper'},workdir={disk / 'work'}"
    return ["mount", "-t", "overlay", "overlay", "-o", options, str(disk / "root")]


def unpack_once(archive: Path, sha256: str) -> Path:
    """The unpacked root file system of a verified archive; one of several callers unpacks it."""
    folder = extracted_folder(sha256)
    with locked(folder.with_name(f"{sha256}.lock")):
        if folder.exists():
            return folder
        partial = folder.with_name(f".{sha256}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        command = ["tar", "--zstd", "-x", "-p", "--numeric-owner", "--xattrs", "-C", str(partial)]
        subprocess.run([*command, "-f", str(archive)], check=True, capture_output=True)
        partial.rename(folder)
        return folder


def _bytes_under(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            total += path.stat().st_size
    return total
