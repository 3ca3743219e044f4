"""The pieces of texts (lines, paragraphs or sentences) as records of a hash and a span of characters."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numba import njit

from l3_ylink.datakit.quality.characters import NEWLINE, SENTENCE_END, SPACE
from l3_ylink.datakit.quality.units import Units

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
Unit = Literal["line", "paragraph", "sentence"]

PIECE = np.dtype([("hash", np.uint64), ("start", np.uint32), ("end", np.uint32)])
"""A piece: equal for pieces of equal units (case, marks and spaces aside), and where it lies in its text."""

WIDE = 0x2000
ODD = np.uint64(0x9E3779B97F4A7C15)


def pieces_of(units: Units, unit: Unit, least: int) -> list[npt.NDArray[Any]]:
    """Of each text, its pieces with at least `least` units (words, or Chinese characters).

    The spans of one text lie side by side: each ends with the newline or the mark that closes it.
    """
    ends = np.flatnonzero(_ends(units, unit))
    of_unit = np.searchsorted(ends, units.start)
    first = np.flatnonzero(np.append([True], of_unit[1:] != of_unit[:-1])) if len(of_unit) else of_unit
    count = np.diff(np.append(first, len(of_unit)))
    hashes = piece_hashes(units.hash, first.astype(np.int64), count.astype(np.int64))
    long = count >= least
    first, place, hashes = first[long], of_unit[first[long]], hashes[long]
    text = np.searchsorted(units.text_start, units.start[first], side="right") - 1
    found = np.empty(len(first), PIECE)
    low = np.maximum(np.append([-1], ends)[place] + 1, units.text_start[text])
    high = np.minimum(ends[place] + 1, units.text_start[text + 1] - 1)  # the last newline is not the text's
    found["hash"] = hashes
    found["start"], found["end"] = low - units.text_start[text], high - units.text_start[text]
    edges = np.searchsorted(text, np.arange(units.texts + 1))
    return [found[a:b] for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]


def _ends(units: Units, unit: Unit) -> npt.NDArray[np.bool_]:
    """The characters with which a piece ends; the newline after each text always does."""
    newline: npt.NDArray[np.bool_] = (units.bits & NEWLINE) != 0
    if unit == "line":
        return newline
    after = np.append(newline[1:], [True])
    if unit == "paragraph":
        ends: npt.NDArray[np.bool_] = newline & after
    else:
        space = np.append(((units.bits & (SPACE | NEWLINE)) != 0)[1:], [True])
        ends = newline | (((units.bits & SENTENCE_END) != 0) & (space | (units.codes >= WIDE)))
    ends[units.text_start[1:] - 1] = True
    return ends


@njit("u8[::1](u8[::1], i8[::1], i8[::1])", cache=True)
def piece_hashes(hashes, first, count):  # type: ignore[no-untyped-def]
    """A hash of each run of unit hashes."""
    found = np.empty(len(first), np.uint64)
    for number in range(len(first)):
        value = np.uint64(count[number])
        for place in range(first[number], first[number] + count[number]):
            value = (value ^ hashes[place]) * np.uint64(0x9E3779B97F4A7C15)
            value ^= value >> np.uint64(32)
        value *= np.uint64(0xBF58476D1CE4E5B9)
        found[number] = value ^ (value >> np.uint64(29))
    return found


def piece_hashes_in_python(hashes: U64, first: I64, count: I64) -> list[int]:
    """The same as `piece_hashes`, to be read and compared with."""
    mask, found = (1 << 64) - 1, []
    for start, size in zip(first.tolist(), count.tolist(), strict=True):
        value = size
        for unit in hashes[start : start + size].tolist():
            value = ((value ^ unit) * int(ODD)) & mask
            value ^= value >> 32
        value = (value * 0xBF58476D1CE4E5B9) & mask
        found.append(value ^ (value >> 29))
    return found
