"""Where built images and extracted root file systems are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`$OGAI_CACHE`, else `$XDG_CACHE_HOME/ogai`, else `~/.cache/ogai`; its `images` folder."""
    named = os.environ.get("OGAI_CACHE")
    if named:
        return Path(named) / "images"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ogai" / "images"


def extracted_folder(sha256: str) -> Path:
    """Where the root file system of the image with this digest lies once it was unpacked."""
    return cache_folder() / "extracted" / sha256
