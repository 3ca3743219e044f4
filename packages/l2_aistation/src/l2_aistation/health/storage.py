"""Whether the shared folder and the local disks take a write and give it back."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

from .finding import BAD, OK, WARN, Finding

NAME = "storage"
LEAST_FREE = 0.02
_BYTES = 4096
_FULL = (errno.ENOSPC, errno.EDQUOT)


def look(folders: list[Path]) -> list[Finding]:
    """Each folder: written, flushed, read again, removed."""
    return [_folder(folder) for folder in folders]


def _folder(folder: Path) -> Finding:
    path, payload = folder / f".aistation-health-{secrets.token_hex(6)}", secrets.token_bytes(_BYTES)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, payload)
            os.fsync(descriptor)
            same = os.pread(descriptor, _BYTES, 0) == payload
        finally:
            os.close(descriptor)
            path.unlink(missing_ok=True)
        room = os.statvfs(folder)
    except OSError as error:
        label = "disk_full" if error.errno in _FULL else "storage_io_error"
        return Finding(NAME, BAD, label, str(folder), error.strerror or str(error))
    if not same:
        return Finding(NAME, BAD, "storage_io_error", str(folder), "what was read is not what was written")
    free = room.f_bavail / max(1, room.f_blocks)
    if free < LEAST_FREE:
        return Finding(NAME, WARN, "disk_full", str(folder), f"{100 * free:.1f} % free")
    return Finding(NAME, OK, entity=str(folder), evidence=f"{100 * free:.0f} % free")
