"""GBK by its bytes: which characters a first or a second half can belong to, and a text as bytes again."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .beam import LOST, SECOND, WHOLE, Codes
from .chinese import OTHER, RARE, ChineseModel, chinese

SYLLABLE = "[a-züāáǎàēéěèīíǐìōóǒòūúǔùǖǘǚǜêńňǹḿ]{1,6}"
BROKEN = re.compile(rf"(?:[?\ufffd]|(?<=[\u3400-\u9fff\ue000-\uf8ff]))({SYLLABLE})\)")


class Tables(NamedTuple):
    """`pair[lead, trail]`: the character; `unread`: pairs left free; `vocabulary`: known characters."""

    pair: npt.NDArray[np.uint32]
    of_lead: dict[int, Codes]
    of_trail: dict[int, Codes]
    lead: dict[int, int]
    trail: dict[int, int]
    vocabulary: Codes
    utf_8: npt.NDArray[np.uint8]
    unread: npt.NDArray[np.bool_]


@cache
def tables() -> Tables:
    """Which character each pair of GBK bytes is, and the known characters by each of their bytes."""
    model = chinese()
    pair = np.zeros((256, 256), np.uint32)
    lead: dict[int, int] = {}
    trail: dict[int, int] = {}
    for first in range(0x81, 0xFF):
        for second in (*range(0x40, 0x7F), *range(0x80, 0xFF)):
            code = _character(first, second)
            if code:
                pair[first, second] = code
                lead[code], trail[code] = first, second
    known = [code for code in lead if model.symbol[code] != RARE and model.symbol[code] != OTHER]
    known = [code for code in known if _may_be_guessed(code, model)]
    of_lead: dict[int, list[int]] = {}
    of_trail: dict[int, list[int]] = {}
    for code in known:
        of_lead.setdefault(lead[code], []).append(code)
        of_trail.setdefault(trail[code], []).append(code)
    vocabulary = np.asarray([code for code in known if code >= 0x800], np.uint32)
    utf_8 = np.asarray([list(chr(code).encode()) for code in vocabulary.tolist()], np.uint8)
    unread = (pair == 0) | ((pair >= 0xE000) & (pair < 0xF900))
    return Tables(pair, _rows(of_lead), _rows(of_trail), lead, trail, vocabulary, utf_8, unread)


def _character(first: int, second: int) -> int:
    """The character of two bytes, private ones too; 0 where they are none."""
    try:
        return ord(bytes((first, second)).decode("gb18030"))
    except UnicodeDecodeError:
        return 0


def _may_be_guessed(code: int, model: ChineseModel) -> bool:
    """Not full-width digits and letters, private characters, or variants that neither script writes."""
    if 0xE000 <= code < 0xF900 or (0xFF10 <= code < 0xFF5B and chr(code).isalnum()):
        return False
    return bool(model.fold[code] == code) or len(chr(code).encode("cp950", "ignore")) == 2


def _rows(lists: dict[int, list[int]]) -> dict[int, Codes]:
    return {byte: np.asarray(codes, np.uint32) for byte, codes in lists.items()}


NONE = np.zeros(0, np.uint32)


class Items(NamedTuple):
    """A span as items: `sound[i]` is the reading that stood after the lost byte i, `mark[i]` its mark."""

    items: list[int]
    sound: dict[int, str]
    odd: list[bool]
    mark: dict[int, int]


def itemise(text: str, model: ChineseModel) -> Items:
    """The bytes that a text had in GBK, with its broken annotations taken out."""
    known = tables()
    broken = {match.start(): match for match in BROKEN.finditer(text) if match[1] in model.readings}
    items: list[int] = []
    sound: dict[int, str] = {}
    odd: list[bool] = []
    mark: dict[int, int] = {}
    place = 0
    while place < len(text):
        match, code = broken.get(place), ord(text[place])
        place = match.end() if match else place + 1
        size = len(items)
        if match:
            sound[size] = match[1]
            items.append(LOST)
        elif code < 0x80 and code != 0x3F:
            items.append(code)
        elif code in (0x80, 0x20AC):
            items.append(0x80)
        elif code in (0x3F, 0xFFFD):
            mark[size] = code
            items += (LOST, SECOND)
        elif code in known.lead:
            items += (known.lead[code], known.trail[code])
        else:
            items.append(WHOLE + code)
        odd += [code == 0xFFFD or bool(model.odd[min(code, 0xFFFF)])] * (len(items) - size)
    return Items(items, sound, odd, mark)


@lru_cache(maxsize=4096)
def of_utf_8(known: tuple[int | None, ...]) -> Codes:
    """The known characters whose three bytes are these, None standing for any."""
    known_ones = tables()
    fits = np.ones(len(known_ones.vocabulary), bool)
    for place, byte in enumerate(known):
        if byte is not None:
            fits &= known_ones.utf_8[:, place] == byte
    return known_ones.vocabulary[fits]
