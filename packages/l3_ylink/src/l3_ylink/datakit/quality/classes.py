"""Character classes for the compiled loops: one byte a character says all that rules ask of it."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import regex  # type: ignore[import-untyped]

from .characters import DIGIT, HAN, KANA, LETTER, MARK, TABLE_SIZE, characters

WORD = 1 << 16
SINGLE = 1 << 17
WHITE = 1 << 18  # str.isspace
LINE_BREAK = 1 << 19  # str.splitlines
TERMINAL = 1 << 20  # Unicode's Sentence_Terminal
CHINESE_MARK = 1 << 21
BULLET = 1 << 22
HASH_SIGN = 1 << 23
ELLIPSIS = 1 << 24
CURLY = 1 << 25
APOSTROPHE = 1 << 26

_WHITE = [code for code in range(0x3001) if chr(code).isspace()]
_BREAKS = (*range(10, 14), *range(28, 31), 0x85, 0x2028, 0x2029)
_MARKED = (
    (CHINESE_MARK, "。！？；，、：…,.;:!?"),
    (BULLET, "•-"),
    (HASH_SIGN, "#"),
    (ELLIPSIS, "…"),
    (CURLY, "{"),
    (APOSTROPHE, "'’"),
)


class Classes(NamedTuple):
    """`kind[c]`: the class of character c; `bits[k]`: what that class is; `lower[c]`: the lower case of c."""

    kind: npt.NDArray[np.uint8]
    bits: npt.NDArray[np.uint32]
    lower: npt.NDArray[np.uint32]

    def which(self, flag: int) -> npt.NDArray[np.int64]:
        """1 for the classes that have a property, else 0: `histogram @ which(flag)` counts characters."""
        chosen: npt.NDArray[np.int64] = ((self.bits & np.uint32(flag)) != 0).astype(np.int64)
        return chosen


@cache
def classes() -> Classes:
    """The classes, made once a process."""
    table = characters()
    flags = table.bits.astype(np.uint32)
    flags[(flags & (HAN | KANA)) != 0] |= SINGLE
    flags[((flags & (LETTER | DIGIT | MARK)) != 0) & ((flags & SINGLE) == 0)] |= WORD
    flags[_WHITE] |= WHITE
    flags[list(_BREAKS)] |= LINE_BREAK
    every = np.arange(TABLE_SIZE, dtype="<u4").tobytes().decode("utf-32-le", "ignore")  # without surrogates
    flags[[ord(mark) for mark in regex.findall(r"\p{Sentence_Terminal}", every)]] |= TERMINAL
    for flag, marks in _MARKED:
        flags[[ord(mark) for mark in marks]] |= flag
    bits, kind = np.unique(flags, return_inverse=True)
    assert len(bits) <= 256
    return Classes(kind.astype(np.uint8), bits.astype(np.uint32), table.lower)
