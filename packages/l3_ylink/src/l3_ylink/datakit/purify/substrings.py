"""Exact repeated runs of words across texts, of any length from a least one, found in bounded memory.

Of every `window` runs of `gram` words in a row, the one with the smallest hash is kept as an anchor
(winnowing: Schleimer, Wilkerson and Aiken 2003).  Two texts that share gram + window - 1 words share an
anchor, so that looking around repeated anchors misses no repeated run of that length.  Only there, all runs
of the least length are hashed and compared: a text that repeats nothing costs its anchors alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from l3_ylink.datakit.quality.units import Units

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

ANCHOR = np.dtype([("hash", np.uint64), ("place", np.uint32)])
"""An anchor: the hash of its run of words, and the number of its first word in the text."""


def sizes(least: int) -> tuple[int, int]:
    """The gram and the window for which no run of `least` words is missed."""
    gram = least // 2 + 1
    return gram, least - gram + 1


def anchors(units: Units, least: int) -> list[npt.NDArray[Any]]:
    """The anchors of each text."""
    gram, window = sizes(least)
    hashes, places, first = _anchors(units.hash, units.first_unit, gram, window)
    found = np.empty(len(hashes), ANCHOR)
    found["hash"], found["place"] = hashes, places
    return [found[a:b] for a, b in zip(first[:-1].tolist(), first[1:].tolist(), strict=True)]


@njit("Tuple((i8, u8))(u8[::1], i8, i8)", cache=True)
def _smallest(ring, run, window):  # type: ignore[no-untyped-def]
    """The run with the smallest hash among the last ones; of equal ones the last."""
    best, smallest = run, ring[run % window]
    for at in range(run - 1, run - window, -1):
        if ring[at % window] < smallest:
            best, smallest = at, ring[at % window]
    return best, smallest


@njit("Tuple((u8[::1], u4[::1], i8[::1]))(u8[::1], i8[::1], i8, i8)", cache=True)
def _anchors(hashes, first_unit, gram, window):  # type: ignore[no-untyped-def]
    most = np.uint64(1)
    for _ in range(gram - 1):
        most *= np.uint64(0x9E3779B97F4A7C15)
    found = np.empty(len(hashes) + 1, np.uint64)
    places = np.empty(len(hashes) + 1, np.uint32)
    first = np.zeros(len(first_unit), np.int64)
    ring = np.empty(window, np.uint64)
    count = 0
    for text in range(len(first_unit) - 1):
        low, high = first_unit[text], first_unit[text + 1]
        value = np.uint64(0)
        best = -window
        smallest = np.uint64(0)
        for place in range(low, high):
            value = value * np.uint64(0x9E3779B97F4A7C15) + hashes[place]
            run = place - low - gram + 1
            if run < 0:
                continue
            mixed = value ^ (value >> np.uint64(31))
            mixed *= np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(29)
            ring[run % window] = mixed
            value -= hashes[low + run] * most
            if run < window - 1:
                continue
            if best <= run - window:  # there is none yet, or it has left the window: look again
                best, smallest = _smallest(ring, run, window)
            elif mixed < smallest:
                best, smallest = run, mixed
            else:
                continue
            found[count], places[count] = smallest, best
            count += 1
        first[text + 1] = count
    return found[:count].copy(), places[:count].copy(), first


class UnitFile:
    """The word hashes and word spans of some documents on disk, found by row."""

    def __init__(self, folder: Path) -> None:
        self._paths = [folder / name for name in ("hash", "start", "end", "row", "first")]
        self._streams = [open(path, "wb") for path in self._paths]  # noqa: SIM115 (closed by `flush`)
        self._size = 0

    def add(self, row: int, hashes: U64, start: I64, end: I64) -> None:
        """Stores a document; rows must rise."""
        values: tuple[npt.NDArray[Any], ...] = (
            hashes,
            start.astype(np.uint32),
            end.astype(np.uint32),
            np.asarray([row], np.int64),
            np.asarray([self._size], np.int64),
        )
        for stream, value in zip(self._streams, values, strict=True):
            value.tofile(stream)
        self._size += len(hashes)

    def flush(self) -> None:
        """Makes what was added readable."""
        np.asarray([self._size], np.int64).tofile(self._streams[-1])
        for stream in self._streams:
            stream.close()
        self._rows = np.fromfile(self._paths[3], np.int64)
        self._first = np.fromfile(self._paths[4], np.int64)

    def _read(self, row: int, number: int, kind: type[Any]) -> npt.NDArray[Any]:
        at = int(np.searchsorted(self._rows, row))
        low, high = int(self._first[at]), int(self._first[at + 1])
        size = np.dtype(kind).itemsize
        return np.fromfile(self._paths[number], kind, high - low, offset=low * size)

    def hashes(self, row: int) -> U64:
        """The word hashes of a document."""
        return self._read(row, 0, np.uint64)

    def spans(self, row: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Where the words of a document begin and end."""
        return self._read(row, 1, np.uint32), self._read(row, 2, np.uint32)


@njit(cache=True)
def windows(hashes, places, least):  # type: ignore[no-untyped-def]
    """Hashes and first words of the runs of `least` words that hold an anchor; `places` rise."""
    gram = least // 2 + 1
    reach = least - gram
    most = np.uint64(1)
    for _ in range(least - 1):
        most *= np.uint64(0x9E3779B97F4A7C15)
    found = np.empty(len(hashes), np.uint64)
    starts = np.empty(len(hashes), np.int64)
    count = 0
    done = 0  # the first start that was not looked at
    value = np.uint64(0)
    for place in places:
        low, high = max(np.int64(place) - reach, done), min(np.int64(place), len(hashes) - least)
        for start in range(low, high + 1):
            if start == done and count and starts[count - 1] == start - 1:
                value = (value - hashes[start - 1] * most) * np.uint64(0x9E3779B97F4A7C15)
                value += hashes[start + least - 1]
            else:
                value = np.uint64(0)
                for word in range(start, start + least):
                    value = value * np.uint64(0x9E3779B97F4A7C15) + hashes[word]
            mixed = value ^ (value >> np.uint64(31))
            mixed *= np.uint64(0xBF58476D1CE4E5B9)
            found[count], starts[count] = mixed ^ (mixed >> np.uint64(29)), start
            count += 1
            done = start + 1
    return found[:count].copy(), starts[:count].copy()
