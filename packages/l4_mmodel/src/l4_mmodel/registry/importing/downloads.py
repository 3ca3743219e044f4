"""One file from far away: resumed where it stopped, checked at its end, in its place only when whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from l4_mmodel._kit.problems import Failed

OpenAt = Callable[[int], Iterator[bytes]]
"""The file's bytes from an offset on."""


@dataclass(frozen=True)
class RemoteFile:
    """A file of a source: its size, and its digest where the source tells one.

    `git_sha1` is the id that git gives to a file's content; hubs tell it for small files.
    """

    path: str
    size: int
    sha256: str | None = None
    git_sha1: str | None = None


def download(file: RemoteFile, into: Path, open_at: OpenAt, advance: Callable[[int], None]) -> None:
    """Fetches `file` to `into`; what an earlier try has fetched is kept and hashed again.

    `Failed` where the bytes end early or are not what the source has promised; a wrong file is removed.
    """
    if into.exists():
        advance(file.size)
        return
    into.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = into.with_name(f".{into.name}.part")
    checks = _Checks(file)
    with open(part, "a+b") as stream:
        stream.seek(0)
        while chunk := stream.read(1 << 20):
            checks.update(chunk)
        have = stream.tell()
        advance(min(have, file.size))
        if have < file.size:
            for chunk in open_at(have):
                stream.write(chunk)
                checks.update(chunk)
                advance(len(chunk))
    fault = checks.fault()
    if fault is None:
        part.rename(into)
        return
    if not checks.short:
        part.unlink()
    raise Failed(f"{file.path} {fault}", do="import again: what is whole is kept")


class _Checks:
    """Size and digests of the bytes so far."""

    def __init__(self, file: RemoteFile) -> None:
        self.file = file
        self.size = 0
        self.sha256 = hashlib.sha256()
        self.git = hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)

    @property
    def short(self) -> bool:
        return self.size < self.file.size

    def update(self, chunk: bytes) -> None:
        self.size += len(chunk)
        self.sha256.update(chunk)
        if self.file.git_sha1 is not None:
            self.git.update(chunk)

    def fault(self) -> str | None:
        """What is wrong with the whole; None where it is as promised."""
        if self.size != self.file.size:
            return f"has {self.size} bytes, the source promised {self.file.size}"
        if self.file.sha256 not in (None, self.sha256.hexdigest()):
            return f"was damaged on the way: its SHA-256 is not {self.file.sha256}"
        if self.file.sha256 is None and self.file.git_sha1 not in (None, self.git.hexdigest()):
            return f"was damaged on the way: its git id is not {self.file.git_sha1}"
        return None
