"""Units: the words of a text, and each Chinese or Japanese character as a unit of its own.

Every rule that counts words, every n-gram and every shingle is built on units, so that one definition
serves languages with and without spaces.  A whole batch of texts is split at once: the texts are laid
end to end, and a compiled loop finds the units, their hashes and how many characters of each class are in
each text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from . import loops
from .characters import characters, codes_of, mix, table_index
from .classes import classes

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

BASE = 0x9E3779B97F4A7C15
"""Base of the polynomial hash: odd, so that it has an inverse modulo 2^64."""


@dataclass(frozen=True)
class Units:
    """The units of some texts laid end to end (a newline after each text).

    `codes`: every character; `text_start[i]`: where text i begins, with one more entry for the end.
    `start`, `end`: each unit's characters; `hash`: equal for units equal in lower case; `exact`: equal for
    units equal as written; `alpha`: has a letter; `first_unit[i]`: the index of text i's first unit, with
    one more entry for the end.  `histogram[i, k]`: characters of class k in text i (`classes.py`).
    """

    codes: npt.NDArray[np.uint32]
    text_start: I64
    start: I64
    end: I64
    hash: U64
    exact: U64
    alpha: npt.NDArray[np.bool_]
    first_unit: I64
    histogram: npt.NDArray[np.int32]

    @property
    def texts(self) -> int:
        """How many texts there are."""
        return len(self.text_start) - 1

    @cached_property
    def bits(self) -> npt.NDArray[np.uint16]:
        """What each character is (`characters.py`)."""
        return characters().bits[table_index(self.codes)]

    @cached_property
    def text_of(self) -> npt.NDArray[np.int32]:
        """The text that each unit belongs to."""
        return np.repeat(np.arange(self.texts, dtype=np.int32), np.diff(self.first_unit))

    @cached_property
    def length(self) -> I64:
        """Characters of each unit."""
        return self.end - self.start

    @cached_property
    def _prefix(self) -> U64:
        powers = _powers(len(self.hash))[0]
        return np.concatenate([np.zeros(1, np.uint64), np.cumsum(self.hash * powers[: len(self.hash)])])

    def count(self, flag: int) -> I64:
        """How many characters of each text have a property of `classes.py` or `characters.py`."""
        counts: I64 = self.histogram @ classes().which(flag)
        return counts

    def grams(self, n: int) -> tuple[U64, I64]:
        """Every n-gram inside one text: its hash, and the index of its first unit."""
        count = len(self.hash) - n + 1
        if count <= 0:
            return np.zeros(0, np.uint64), np.zeros(0, np.int64)
        inside = np.flatnonzero(self.text_of[:count] == self.text_of[n - 1 :])
        sums = self._prefix[n:] - self._prefix[:count]
        sums *= _powers(len(self.hash))[1][:count]
        sums = sums[inside] if len(inside) < count else sums
        return mix(sums + np.uint64(n)), inside


def split_units(texts: Sequence[str]) -> Units:
    """Splits texts into units, all at once."""
    known = classes()
    codes = codes_of("\n".join(texts) + "\n")
    text_start = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter((len(text) + 1 for text in texts), np.int64, len(texts)), out=text_start[1:])
    room = len(codes)
    histogram = np.zeros((len(texts), len(known.bits)), np.int32)
    start, end = np.empty(room, np.int64), np.empty(room, np.int64)
    exact, lowered = np.empty(room, np.uint64), np.empty(room, np.uint64)
    alpha, first_unit = np.empty(room, np.bool_), np.empty(len(texts) + 1, np.int64)
    count = loops.split(
        codes,
        text_start,
        known.kind,
        known.bits,
        known.lower,
        histogram,
        start,
        end,
        exact,
        lowered,
        alpha,
        first_unit,
    )
    return Units(
        codes,
        text_start,
        start[:count].copy(),
        end[:count].copy(),
        lowered[:count].copy(),
        exact[:count].copy(),
        alpha[:count].copy(),
        first_unit,
        histogram,
    )


def _powers(size: int) -> tuple[U64, U64]:
    """Powers of the base and of its inverse: at least `size` of each, kept for the next batch."""
    room = 1 << max(size, 1 << 16).bit_length()
    return _power_row(BASE, room), _power_row(pow(BASE, -1, 1 << 64), room)


@lru_cache(maxsize=4)
def _power_row(base: int, size: int) -> U64:
    """base^0 … base^(size-1) modulo 2^64, by doubling."""
    row = np.ones(size, np.uint64)
    done, power = 1, base
    while done < size:
        step = min(done, size - done)
        row[done : done + step] = row[:step] * np.uint64(power)
        done, power = done + step, power * power % (1 << 64)
    return row
