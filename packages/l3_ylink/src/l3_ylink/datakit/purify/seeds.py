"""Where in a text personal data can be at all: one pass over its bytes, so that most is never looked at.

A seed is a place and what may be there: a sign of a mail address, a run of digits long enough for a
person's number, four numbers with dots, hexadecimal groups with colons, or a plate's province and letter.
"""

from __future__ import annotations

import re

import numba
import numpy as np
import numpy.typing as npt

MAIL, NUMBER, DOTTED, COLONS, PLATE = range(5)
PROVINCES = "京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼使"
LEAST_DIGITS, LEAST_AFTER_SIGN, MOST_DOTTED = 10, 7, 24

U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]

DIGIT, JOINER, HEXADECIMAL, CAPITAL, AT, COLON, WIDE = 1, 2, 4, 8, 16, 32, 64


def _classes() -> U8:
    table = np.zeros(256, np.uint8)
    table[0x30:0x3A] = DIGIT | HEXADECIMAL
    table[[ord(character) for character in " -.)"]] = JOINER
    table[0x41:0x5B] = CAPITAL
    table[0x41:0x47] |= HEXADECIMAL
    table[0x61:0x67] = HEXADECIMAL
    table[ord("@")], table[ord(":")] = AT, COLON
    table[0xE4:0xEA] = WIDE
    return table


def _provinces() -> npt.NDArray[np.bool_]:
    """By the three bytes of a character's UTF-8 form, less what is the same in all Chinese ones."""
    marks = np.zeros((16, 64, 64), np.bool_)
    for province in PROVINCES:
        first, second, third = province.encode()
        marks[first & 15, second & 63, third & 63] = True
    return marks


CLASSES, PROVINCE = _classes(), _provinces()


@numba.njit(cache=True)
def _number(data: U8, start: int, classes: U8) -> tuple[int, int]:
    """The end of a run of digits with single joiners between them, and the kind of seed (-1: none)."""
    place, digits, dots, size = start, 0, 0, len(data)
    while place < size:
        kind = classes[data[place]]
        if kind & DIGIT:
            digits += 1
        elif kind & JOINER and place + 1 < size and classes[data[place + 1]] & DIGIT:
            dots += data[place] == 0x2E
        elif data[place] == 0x29 and place + 2 < size and data[place + 1] == 0x20:
            if not classes[data[place + 2]] & DIGIT:
                break
            place += 1
        else:
            break
        place += 1
    if dots >= 3 and digits <= MOST_DOTTED:
        return place, DOTTED
    sign = start > 0 and (classes[data[start - 1]] & CAPITAL or data[start - 1] in (0x2B, 0x28))
    if digits >= LEAST_DIGITS or (sign and digits >= LEAST_AFTER_SIGN):
        return place, NUMBER
    return place, -1


@numba.njit(cache=True)
def _colons(data: U8, start: int, classes: U8) -> tuple[int, int]:
    """The end of what follows a colon in an address of hexadecimal groups, and the kind of seed."""
    place, colons, double, size = start, 0, False, len(data)
    while place < size and classes[data[place]] & (COLON | HEXADECIMAL):
        if data[place] == 0x3A:
            double = double or (place > 0 and data[place - 1] == 0x3A)
            colons += 1
        place += 1
    return place, COLONS if place - start > 2 and (colons >= 7 or (double and colons >= 2)) else -1


@numba.njit(cache=True)
def _is_plate(data: U8, place: int, classes: U8, province: npt.NDArray[np.bool_]) -> bool:
    """Whether a province's character with a capital letter after it begins here."""
    if place + 3 >= len(data) or not classes[data[place + 3]] & CAPITAL:
        return False
    return bool(province[data[place] & 15, data[place + 1] & 63, data[place + 2] & 63])


@numba.njit(cache=True)
def _scan(data: U8, classes: U8, province: npt.NDArray[np.bool_], found: I64) -> int:
    """Writes place * 8 + kind for every seed; returns how many there are, even beyond what has room."""
    size, count, place = len(data), 0, 0
    while place < size:
        kind, seed, end = classes[data[place]], -1, place + 1
        if kind & DIGIT:
            end, seed = _number(data, place, classes)
        elif kind & COLON:
            end, seed = _colons(data, place, classes)
        elif kind & AT:
            seed = MAIL
        elif kind & WIDE and _is_plate(data, place, classes, province):
            seed = PLATE
        if seed >= 0:
            if count < len(found):
                found[count] = place * 8 + seed
            count += 1
        place = end
    return count


def seeds(data: bytes) -> list[tuple[int, int]]:
    """Place and kind of every seed in a text's UTF-8 bytes, in order."""
    row = np.frombuffer(data, np.uint8)
    found = np.empty(64 + len(data) // 256, np.int64)
    count = _scan(row, CLASSES, PROVINCE, found)
    if count > len(found):
        found = np.empty(count, np.int64)
        _scan(row, CLASSES, PROVINCE, found)
    return [(place >> 3, place & 7) for place in found[:count].tolist()]


_NUMBER = rb"[0-9](?:[0-9]|[ .)-](?=[0-9])|\) (?=[0-9]))*"
_COLONS = rb":[:0-9A-Fa-f]*"
_PLATE = b"(?:" + b"|".join(province.encode() for province in PROVINCES) + b")(?=[A-Z])"
_REFERENCE = re.compile(rb"(%b)|(%b)|(@)|(%b)" % (_NUMBER, _COLONS, _PLATE))


def seeds_reference(data: bytes) -> list[tuple[int, int]]:
    """What `seeds` finds, by regular expressions: slower and easier to read."""
    found = []
    for match in _REFERENCE.finditer(data):
        start, text = match.start(), match[0]
        before = data[start - 1 : start]
        if match[1]:
            digits = sum(byte in b"0123456789" for byte in text)
            signed = before.isupper() or before in (b"+", b"(")
            least = LEAST_AFTER_SIGN if signed else LEAST_DIGITS
            if text.count(b".") >= 3 and digits <= MOST_DOTTED:
                found.append((start, DOTTED))
            elif digits >= least:
                found.append((start, NUMBER))
        elif match[2]:
            colons, double = text.count(b":"), b"::" in before + text
            if len(text) > 2 and (colons >= 7 or (double and colons >= 2)):
                found.append((start, COLONS))
        else:
            found.append((start, MAIL if match[3] else PLATE))
    return found
