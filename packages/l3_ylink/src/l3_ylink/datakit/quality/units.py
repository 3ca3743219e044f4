"""Units: the words of a text, and each Chinese or Japanese character as a unit of its own.

Every rule that counts words, every n-gram and every shingle is built on units, so that one definition
serves languages with and without spaces.  A whole batch of texts is split at once: the texts are laid
end to end, and each unit's hash comes from prefix sums of a polynomial hash (no loop over words).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from .characters import (
    DIGIT,
    HAN,
    KANA,
    LETTER,
    MARK,
    characters,
    codes_of,
    mix,
    table_index,
)

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

BASE = 0x9E3779B97F4A7C15
"""Base of the polynomial hash: odd, so that it has an inverse modulo 2^64."""

APOSTROPHES = (0x27, 0x2019)


@dataclass(frozen=True)
class Units:
    """The units of some texts laid end to end (a newline after each text).

    `codes`, `bits`: every character and what it is; `text_start[i]`: where text i begins, with one more
    entry for the end.  `start`, `end`: each unit's characters; `hash`: equal for units equal in lower
    case; `first_unit[i]`: the index of text i's first unit, with one more entry for the end.
    """

    codes: npt.NDArray[np.uint32]
    bits: npt.NDArray[np.uint16]
    text_start: I64
    start: I64
    end: I64
    hash: U64
    first_unit: I64
    character_prefix: U64

    @property
    def texts(self) -> int:
        """How many texts there are."""
        return len(self.text_start) - 1

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

    def span_hash(self, start: I64, end: I64) -> U64:
        """A hash of the characters from `start` to `end`, in lower case: equal spans, equal hash."""
        inverse = _powers(len(self.codes))[1]
        return mix((self.character_prefix[end] - self.character_prefix[start]) * inverse[start])

    def per_text(self, values: npt.NDArray[np.bool_]) -> I64:
        """How many characters of each text have a property."""
        return np.add.reduceat(values.view(np.int8), self.text_start[:-1], dtype=np.int64)

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
    table = characters()
    joined = "\n".join(texts) + "\n"
    codes = codes_of(joined)
    lengths = np.fromiter((len(text) + 1 for text in texts), np.int64, len(texts))
    text_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    index = table_index(codes)
    bits = table.bits[index]
    single = (bits & (HAN | KANA)) != 0
    word = ((bits & (LETTER | DIGIT | MARK)) != 0) & ~single
    word |= _inner_apostrophes(codes, word)
    start, end = _runs(word, single)
    weighted = table.value[index] * _powers(len(codes))[0][: len(codes)]
    prefix = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weighted)])
    hashes = mix((prefix[end] - prefix[start]) * _powers(len(codes))[1][start])
    first_unit = np.searchsorted(start, text_start).astype(np.int64)
    return Units(codes, bits, text_start, start, end, hashes, first_unit, prefix)


def _inner_apostrophes(codes: npt.NDArray[np.uint32], word: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """An apostrophe between two letters is part of the word (don't)."""
    found = np.zeros(len(codes), bool)
    if len(codes) > 2:
        middle = (codes[1:-1] == APOSTROPHES[0]) | (codes[1:-1] == APOSTROPHES[1])
        found[1:-1] = middle & word[:-2] & word[2:]
    return found


def _runs(word: npt.NDArray[np.bool_], single: npt.NDArray[np.bool_]) -> tuple[I64, I64]:
    """Where units begin and end: runs of word characters, and each single character."""
    before = np.empty_like(word)
    before[:1] = False
    before[1:] = word[:-1]
    after = np.empty_like(word)
    after[-1:] = False
    after[:-1] = word[1:]
    start = np.flatnonzero((word & ~before) | single)
    end = np.flatnonzero((word & ~after) | single) + 1
    return start.astype(np.int64), end.astype(np.int64)


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
