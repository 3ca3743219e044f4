"""Fetches an image over HTTP: streamed to a file, hashed on the way, refused when it differs."""

from __future__ import annotations

import hashlib
import urllib.request
from pathlib import Path
from typing import NamedTuple

PIECE = 1 << 20


class Mismatch(Exception):  # noqa: N818 (what happened, not a programming error)
    """The bytes that came are not the ones that were promised."""


class Received(NamedTuple):
    """What came: the SHA-256 that was computed over it (hexadecimal), and its length in bytes."""

    sha256: str
    size: int


def download(
    url: str, target: Path, *, sha256: str, size: int | None = None, timeout_s: float = 60
) -> Received:
    """Writes the bytes at `url` to `target`; `Mismatch` (and no file) when size or SHA-256 differ."""
    hasher, received = hashlib.sha256(), 0
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer, open(target, "wb") as file:  # noqa: S310
            while piece := answer.read(PIECE):
                received += len(piece)
                if size is not None and received > size:
                    raise Mismatch(f"more than the promised {size} bytes came from {url}")
                hasher.update(piece)
                file.write(piece)
        if size is not None and received != size:
            raise Mismatch(f"{received} bytes came from {url}, {size} were promised")
        if hasher.hexdigest() != sha256:
            raise Mismatch(f"the image has the SHA-256 {hasher.hexdigest()}, not {sha256}")
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return Received(hasher.hexdigest(), received)
