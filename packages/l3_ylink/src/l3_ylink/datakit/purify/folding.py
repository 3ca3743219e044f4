"""Folding: units whose hashes are equal for traditional and simplified Chinese characters."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from l3_ylink.datakit.quality.units import U64, Units, split_units

FIRST, END = 0x3400, 0xA000
"""The range of characters that are folded: CJK ideographs of the basic plane."""


@cache
def simplified() -> npt.NDArray[np.uint32]:
    """The simplified character of each character of the range, by OpenCC's character table."""
    import opencc

    lines = "\n".join(chr(code) for code in range(FIRST, END))
    codes = [ord(line) if len(line) == 1 else 0 for line in opencc.OpenCC("t2s").convert(lines).split("\n")]
    same = np.arange(FIRST, END, dtype=np.uint32)
    found = np.asarray(codes, np.uint32)
    return np.where((found >= FIRST) & (found < END), found, same).astype(np.uint32)


@cache
def _hashes() -> tuple[npt.NDArray[np.bool_], U64]:
    """Which characters of the range change, and the hash of what each becomes."""
    table = simplified()
    units = split_units(["\n".join(map(chr, table.tolist()))])
    hashes = np.zeros(END - FIRST, np.uint64)
    single = units.end - units.start == 1
    hashes[units.start[single] // 2] = units.hash[single]
    changes = table != np.arange(FIRST, END)
    return changes & (hashes != 0), hashes


def folded(units: Units) -> U64:
    """The hashes of units, with traditional characters hashed as their simplified ones."""
    first = units.codes[units.start]
    here = np.flatnonzero((first >= FIRST) & (first < END) & (units.end - units.start == 1))
    changes, hashes = _hashes()
    place = first[here].astype(np.int64) - FIRST
    here, place = here[changes[place]], place[changes[place]]
    found = units.hash.copy()
    found[here] = hashes[place]
    return found
