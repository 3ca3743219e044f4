"""Sentences for language models: units with the places where sentences end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .characters import NEWLINE, SENTENCE_END, SPACE, characters, table_index
from .units import Units

I64 = npt.NDArray[np.int64]
WIDE = 0x2000
"""Sentence marks beyond this (。！？…) end a sentence anywhere, the others only before a space."""


def sentence_starts(units: Units) -> npt.NDArray[np.bool_]:
    """Whether each unit begins a sentence: first of its text, of a line, or after a sentence mark."""
    bits, codes = units.bits, units.codes
    space = (bits & (SPACE | NEWLINE)) != 0
    mark = (bits & SENTENCE_END) != 0
    before_space = np.append(space[1:], True)
    ends = ((bits & NEWLINE) != 0) | (mark & (before_space | (codes >= WIDE)))
    seen = np.concatenate([[0], np.cumsum(ends)])
    starts = np.ones(len(units.start), bool)
    starts[1:] = seen[units.start[1:]] > seen[units.end[:-1]]
    return starts


def words_of(units: Units, chosen: I64) -> list[str]:
    """The written words of some units, in lower case."""
    lower = characters().lower
    found = []
    for place in chosen.tolist():
        letters = units.codes[units.start[place] : units.end[place]]
        small = np.where(letters < len(lower), lower[table_index(letters)], letters).astype("<u4")
        found.append(small.tobytes().decode("utf-32-le", "replace"))
    return found
