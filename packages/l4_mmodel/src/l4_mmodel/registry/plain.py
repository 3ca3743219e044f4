"""Plain copies of sealed files, for runtimes that read a folder: in memory only, gone after use.

`memory/TENANT/DIGEST` lies on a tmpfs (by default /dev/shm) and is held by a lock for as long as a
process needs it.  The kernel drops the locks of a process that was killed; the next one sweeps.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, BinaryIO

from l4_mmodel._kit.problems import Failed, Unavailable

COPY = 1 << 20
Sealed = tuple[Callable[[], BinaryIO], str]
"""How a file's plain bytes are opened, and the digest that they must have."""


class PlainViews:
    """The folders of one state folder; each process has its own object."""

    def __init__(self, memory: Path, state_dir: Path) -> None:
        mark = hashlib.sha256(os.fsencode(state_dir.resolve())).hexdigest()[:16]
        self.memory = memory
        self.root = memory / f"ogai-l4-{os.getuid()}-{mark}"
        self._held: dict[Path, IO[bytes]] = {}

    def open(self, tenant: str, digest: str, files: Mapping[str, Sealed]) -> Path:
        """A folder with the plain files; it stays while this object holds it."""
        folder = self.root / tenant / digest.removeprefix("sha256:")
        if folder in self._held and folder.is_dir():
            return folder
        self._must_be_memory()
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._held[folder] = lock = _lock_file(folder)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            part = folder.with_name(f".{folder.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            try:
                for name, (source, expected) in files.items():
                    _copy(source, part / name, expected)
            except BaseException:
                shutil.rmtree(part, ignore_errors=True)
                self._held.pop(folder).close()
                raise
            part.rename(folder)
        fcntl.flock(lock, fcntl.LOCK_SH)
        return folder

    def keep(self, digests: set[str]) -> None:
        """Lets go of everything but these versions."""
        for folder in list(self._held):
            if f"sha256:{folder.name}" not in digests:
                self._held.pop(folder).close()
        self.sweep()

    def close(self) -> None:
        """Lets go of everything."""
        self.keep(set())

    def sweep(self) -> None:
        """Removes what no process holds, also what a killed one has left."""
        for lock in self.root.glob("*/*.lock"):
            folder = lock.with_suffix("")
            if folder in self._held:
                continue
            with contextlib.suppress(OSError), _lock_file(folder) as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder.with_name(f".{folder.name}.part"), ignore_errors=True)
                shutil.rmtree(folder, ignore_errors=True)

    def _must_be_memory(self) -> None:
        kinds = {}
        for line in Path("/proc/self/mounts").read_text().splitlines():
            _, place, kind = line.split(" ")[:3]
            kinds[place] = kind
        inside = [place for place in kinds if self.memory.is_relative_to(place)]
        if not self.memory.is_dir() or kinds[max(inside, key=len)] != "tmpfs":
            raise Unavailable(
                f"{self.memory} is no tmpfs", why="sealed weights are opened into memory only",
                do="mount a tmpfs there, or set memory_dir to one",
            )  # fmt: skip


def _copy(source: Callable[[], BinaryIO], place: Path, digest: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    hasher = hashlib.sha256()
    with source() as stream, open(os.open(place, os.O_WRONLY | os.O_CREAT, 0o400), "wb") as target:
        while chunk := stream.read(COPY):
            hasher.update(chunk)
            target.write(chunk)
    found = f"sha256:{hasher.hexdigest()}"
    if found != digest:
        raise changed(place.name, found, digest)


def changed(name: str, found: str, digest: str) -> Failed:
    """Stored content that is not what was registered."""
    return Failed(
        f"{name}: the stored content was changed",
        why=f"its SHA-256 is {found.removeprefix('sha256:')}, registered was {digest[7:]}",
        do="delete the version and register it again from its source",
    )


def _lock_file(folder: Path) -> IO[bytes]:
    return open(folder.with_suffix(".lock"), "ab")
