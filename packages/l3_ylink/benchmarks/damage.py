"""Clean Chinese damaged on purpose, by the mechanisms that damage it on real pages.

Each maker takes a clean line and a random source and returns the damaged line, or None where the line
does not suit.  Readers of GBK differ in what they do with bytes that are no character: `windows` swallows
two and leaves a question mark, even of half a character and a space; `web` (WHATWG) gives the space back
and knows private characters; `python` drops one byte; both leave U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Literal

Reader = Literal["windows", "web", "python"]
READERS: tuple[Reader, ...] = ("windows", "web", "python")
HAN = re.compile("[\u4e00-\u9fff]")


@cache
def reading_of() -> dict[str, str]:
    """A reading of each character, with its tone where it has one; the readings are pypinyin's."""
    from l3_ylink.datakit.purify.chinese import chinese

    found: dict[str, str] = {}
    for sound, characters in sorted(chinese().readings.items()):
        for character in characters:
            if not sound.isascii() or character not in found:
                found[character] = sound
    return found


@cache
def changed_by_converter() -> frozenset[str]:
    """Traditional characters that a converter from simplified ones would have put there."""
    import opencc

    convert = opencc.OpenCC("t2s").convert
    return frozenset(chr(code) for code in range(0x4E00, 0x9FA6) if convert(chr(code)) != chr(code))


def read_gbk(data: bytes, reader: Reader) -> str:
    """Bytes as a reader of GBK shows them."""
    parts, place = [], 0
    while place < len(data):
        pair = data[place : place + 2]
        if pair[0] <= 0x80:
            parts.append("€" if pair[0] == 0x80 else chr(pair[0]))
            place += 1
            continue
        character = _pair(pair, "gb18030" if reader == "web" else "gbk")
        if character:
            parts.append(character)
            place += 2
        else:
            parts.append("?" if reader == "windows" else "\ufffd")
            place += 2 if reader == "windows" or (reader == "web" and pair[-1] >= 0x80) else 1
    return "".join(parts)


def _pair(pair: bytes, encoding: str) -> str:
    """The character of two bytes, "" where they are none."""
    try:
        return pair.decode(encoding) if len(pair) == 2 and pair[1] >= 0x40 else ""
    except UnicodeDecodeError:
        return ""


def annotate(line: str, random: Random, share: float = 0.6) -> str | None:
    """Pinyin after most of the characters that the converter changed."""
    changed, readings = changed_by_converter(), reading_of()
    places = [place for place, character in enumerate(line) if character in changed and character in readings]
    chosen = {place for place in places if random.random() < share}
    if not chosen:
        return None
    return "".join(
        f"{character}({readings[character]})" if place in chosen else character
        for place, character in enumerate(line)
    )


def break_annotation(line: str, random: Random) -> str | None:
    """Pinyin put between the halves of a character: by bytes, the converter saw another character there."""
    data = _gbk(line)
    if data is None:
        return None
    readings, changed = reading_of(), changed_by_converter()
    places = []
    for place in range(1, len(data) - 2):
        if _aligned(data, place - 1) and data[place + 1] >= 0x81:
            seen = data[place : place + 2].decode("gbk", "ignore")
            if seen in changed and seen in readings:
                places.append((place + 2, readings[seen]))
    if not places:
        return None
    place, sound = random.choice(places)
    return read_gbk(data[:place] + f"({sound})".encode("gbk") + data[place:], "windows")


def lose_byte(line: str, random: Random) -> str | None:
    """One byte of a character lost: the rest of the run is read one byte late."""
    data = _gbk(line)
    places = [place for place, byte in enumerate(data or b"") if byte >= 0x81]
    if data is None or not places:
        return None
    place = random.choice(places)
    return read_gbk(data[:place] + data[place + 1 :], random.choice(READERS))


def utf_8_as_gbk(line: str, random: Random) -> str | None:
    return read_gbk(line.encode(), random.choice(READERS))


def gbk_as_latin(line: str, random: Random) -> str | None:
    data = _gbk(line)
    return None if data is None or random.random() < 0 else data.decode("latin-1")


def utf_8_as_latin(line: str, random: Random) -> str | None:
    """Latin-1, or Windows-1252 with the bytes that it leaves free as control characters."""
    if random.random() < 0.5:
        return line.encode().decode("latin-1")
    return "".join(bytes((byte,)).decode("cp1252", "ignore") or chr(byte) for byte in line.encode())


def _gbk(line: str) -> bytes | None:
    try:
        return line.encode("gbk")
    except UnicodeEncodeError:
        return None


def _aligned(data: bytes, place: int) -> bool:
    """Whether a character of two bytes begins here, and another after it."""
    at = 0
    while at < place:
        at += 2 if data[at] >= 0x81 else 1
    return at == place and data[place] >= 0x81 and place + 2 < len(data) and data[place + 2] >= 0x81


MECHANISMS: dict[str, Callable[[str, Random], str | None]] = {
    "pinyin broke a character (GBK one byte late)": break_annotation,
    "a byte of GBK lost (one byte late)": lose_byte,
    "UTF-8 read as GBK": utf_8_as_gbk,
    "GBK read as Latin-1": gbk_as_latin,
    "UTF-8 read as Latin-1 or Windows-1252": utf_8_as_latin,
}
