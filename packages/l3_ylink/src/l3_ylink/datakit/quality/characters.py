"""What each Unicode character is, as bits in one table, so that texts are judged without a loop."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

LETTER = 1
DIGIT = 2
SPACE = 4
NEWLINE = 8
HAN = 16
KANA = 32
HANGUL = 64
PUNCTUATION = 128
SYMBOL = 256
SENTENCE_END = 512
DAMAGED = 1024  # private use, unassigned, the replacement character
SIMPLIFIED = 2048  # a common character that only simplified Chinese writes
TRADITIONAL = 4096
COMMON_HAN = 8192  # among the 3,755 characters of GB 2312's first level
LATIN = 16384
MARK = 32768

TABLE_SIZE = 0x30000
"""Characters beyond the ideographic planes share the last entry: none of them is a word's part."""

_KINDS = {
    "L": LETTER,
    "N": DIGIT,
    "Z": SPACE,
    "P": PUNCTUATION,
    "S": SYMBOL,
    "M": MARK,
}
_HAN_RANGES = ((0x3400, 0x4DC0), (0x4E00, 0xA000), (0xF900, 0xFB00), (0x20000, 0x30000))
_SENTENCE_ENDS = ".!?。！？…｡．"


class CharacterTable(NamedTuple):
    """`bits[c]`: what character c is; `lower[c]`: its lower case; `value[c]`: a random number for hashing."""

    bits: npt.NDArray[np.uint16]
    lower: npt.NDArray[np.uint32]
    value: npt.NDArray[np.uint64]


@cache
def characters() -> CharacterTable:
    """The table, made once a process (about 60 ms)."""
    bits = np.zeros(TABLE_SIZE, np.uint16)
    lower = np.arange(TABLE_SIZE, dtype=np.uint32)
    for code in (*range(0x3400), *range(0xA000, 0xAC00), *range(0xD7A4, 0xD800), *range(0xF900, 0x20000)):
        _describe(code, bits, lower)
    bits[0xAC00:0xD7A4] = LETTER | HANGUL
    bits[0xE000:0xF900] = DAMAGED
    for start, end in _HAN_RANGES:
        bits[start:end] = LETTER | HAN
    bits[0x3005:0x3008] = LETTER | HAN  # 々〆〇
    bits[0x3040:0x3100] |= KANA
    bits[0x31F0:0x3200] |= KANA
    bits[0xFF66:0xFF9E] |= KANA
    bits[0xFFFD] = DAMAGED
    for text in (_SENTENCE_ENDS,):
        bits[[ord(character) for character in text]] |= SENTENCE_END
    for code in (0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x85):
        bits[code] = SPACE
    bits[0x0A] |= NEWLINE
    bits[np.r_[0x41:0x5B, 0x61:0x7B, 0xC0:0x250]] |= LATIN
    _mark_scripts(bits)
    return CharacterTable(bits, lower, mix(lower.astype(np.uint64) + np.uint64(1)))


def _describe(code: int, bits: npt.NDArray[np.uint16], lower: npt.NDArray[np.uint32]) -> None:
    character = chr(code)
    category = unicodedata.category(character)
    if category in ("Co", "Cn"):
        bits[code] = DAMAGED
    elif category[0] in _KINDS:
        bits[code] = _KINDS[category[0]]
    if category in ("Lu", "Lt"):
        small = character.lower()
        lower[code] = ord(small) if len(small) == 1 else code


def _mark_scripts(bits: npt.NDArray[np.uint16]) -> None:
    """GB 2312 is the simplified repertoire, Big5's first level the traditional one: set differences.

    Both tables are in Python's codecs, so that no list of characters has to be carried.
    """
    simplified = _codec_characters("gb2312", range(0xB0, 0xF8), range(0xA1, 0xFF))
    common = _codec_characters("gb2312", range(0xB0, 0xD8), range(0xA1, 0xFF))
    traditional = _codec_characters("big5", range(0xA4, 0xC7), (*range(0x40, 0x7F), *range(0xA1, 0xFF)))
    bits[
        sorted(
            simplified
            - _codec_characters("big5", range(0xA4, 0xFA), (*range(0x40, 0x7F), *range(0xA1, 0xFF)))
        )
    ] |= SIMPLIFIED
    bits[sorted(traditional - simplified)] |= TRADITIONAL
    bits[sorted(common)] |= COMMON_HAN


def _codec_characters(codec: str, leads: range, trails: range | tuple[int, ...]) -> set[int]:
    found = set()
    for lead in leads:
        for trail in trails:
            character = bytes((lead, trail)).decode(codec, "ignore")
            if len(character) == 1 and 0x4E00 <= ord(character) < 0xA000:
                found.add(ord(character))
    return found


def codes_of(text: str) -> npt.NDArray[np.uint32]:
    """The characters of a text as numbers; lone surrogates stay what they are."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def table_index(codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Character numbers as indices into the table."""
    return np.minimum(codes, np.uint32(TABLE_SIZE - 1)) if codes.size and codes.max() >= TABLE_SIZE else codes


def mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finaliser: spreads every bit of the input over the output."""
    mixed = values ^ (values >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed
