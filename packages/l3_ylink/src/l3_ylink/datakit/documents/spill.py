"""Sorting more records than memory holds: records are spread over files by key and sorted file by file.

Keys are 64-bit numbers that fill their range evenly (hashes, or positions scaled to it).  A file that is
still too large is spread again by the next bits, so that memory depends on no count of rows; only the
records of one single key always come together.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Records = npt.NDArray[Any]

MEMORY_BYTES = 16_000_000
"""Records held before they go to disk, and the most that are sorted at once."""

FAN_BITS = 6
DEEPEST = 5


class Spill:
    """Records of one structured dtype with a field `key` (u8); `parts` gives them back in order of key."""

    def __init__(self, folder: Path, dtype: np.dtype[Any], *, memory: int = MEMORY_BYTES) -> None:
        self.dtype = dtype
        self.count = 0
        self._folder = folder / f"spill-{secrets.token_hex(4)}"
        self._memory = memory
        self._held: list[Records] = []
        self._size = 0
        self._on_disk = False

    def add(self, records: Records) -> None:
        """Takes records in."""
        if not len(records):
            return
        self._held.append(records)
        self._size += records.nbytes
        self.count += len(records)
        if self._size > self._memory:
            self._flush()

    def parts(self, *order: str) -> Iterator[Records]:
        """All records in order of key, in parts; inside a part sorted by the fields of `order`.

        Records of equal key are in one part.  The records are gone afterwards.
        """
        if not self._on_disk:
            held = np.concatenate(self._held) if self._held else np.zeros(0, self.dtype)
            self._held, self._size = [], 0
            if len(held):
                yield _sorted(held, order)
            return
        self._flush()
        yield from self._files(self._folder, 0, order)
        self._folder.rmdir()

    def _flush(self) -> None:
        self._on_disk = True
        self._folder.mkdir(parents=True, exist_ok=True)
        _spread(self._folder, np.concatenate(self._held) if self._held else np.zeros(0, self.dtype), 0)
        self._held, self._size = [], 0

    def _files(self, folder: Path, depth: int, order: tuple[str, ...]) -> Iterator[Records]:
        for path in sorted(folder.glob("*.bin")):
            if path.stat().st_size <= self._memory or depth + 1 >= DEEPEST:
                records = np.fromfile(path, self.dtype)
                path.unlink()
                yield _sorted(records, order)
                continue
            below = path.with_suffix("")
            below.mkdir()
            most = max(1, self._memory // self.dtype.itemsize)
            with open(path, "rb") as stream:
                while len(some := np.fromfile(stream, self.dtype, most)):
                    _spread(below, some, depth + 1)
            path.unlink()
            yield from self._files(below, depth + 1, order)
            below.rmdir()


def _spread(folder: Path, records: Records, depth: int) -> None:
    shift = np.uint64(64 - FAN_BITS * (depth + 1))
    place = ((records["key"] >> shift) & np.uint64((1 << FAN_BITS) - 1)).astype(np.int64)
    order = np.argsort(place, kind="stable")
    records, place = records[order], place[order]
    edges = np.searchsorted(place, np.arange((1 << FAN_BITS) + 1))
    for number in np.unique(place).tolist():
        with open(folder / f"{number:02d}.bin", "ab") as stream:
            records[edges[number] : edges[number + 1]].tofile(stream)


def _sorted(records: Records, order: tuple[str, ...]) -> Records:
    return records[np.lexsort(tuple(records[name] for name in reversed(order)))] if order else records


def position_key(rows: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.uint64]:
    """A key that keeps the order of rows `0 … count-1` and fills the range of 64 bits."""
    return rows.astype(np.uint64) * np.uint64((1 << 64) // max(count, 1) if count > 1 else 1)
