"""Bytes to text: which encoding a file is in, judged by what the characters would be.

A valid UTF-8 file of any length is UTF-8.  Else each East Asian encoding that decodes without fault is
scored by how many of its characters are among the most frequent of the language that it is made for, and
the best wins; other files are Western where only Western letters come out, else charset-normalizer's.
A file whose lines are partly UTF-8 and partly in one such encoding is read line by line.
"""

from __future__ import annotations

import codecs
from typing import NamedTuple

SAMPLE_BYTES = 64_000
MOST_DAMAGE = 0.02
"""A file whose bytes are UTF-8 but for this share of faults is UTF-8 with damage, not another encoding."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

LEAST_FREQUENT = 0.08
LEAST_FREQUENT_MIXED = 0.15
"""Share of frequent characters from which the lines of a file that are not UTF-8 are another encoding."""

CERTAIN_BYTES = 6
"""Bytes beyond ASCII that a line must have to be UTF-8 for certain: two characters are not so by chance."""

_ESCAPES = (
    (b"\x1b$B", "iso2022_jp"),
    (b"\x1b$@", "iso2022_jp"),
    (b"\x1b$)C", "iso2022_kr"),
)
"""Encodings of seven bits: their escape sequences stand in no plain text."""

#: The most frequent characters of running text, by the encoding that its language was written in.
FREQUENT = {
    "gb18030": frozenset(
        "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里"
        "用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实"
        "日军者意无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体"
    ),
    "big5hkscs": frozenset(
        "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡"
        "用道行所然家種事成方多經麼去法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本前開但因只從想實"
        "日軍者意無力它與長把機十民第公此已工使情明性知全三又關點正業外將兩高間由問很最重並物手應戰向頭文體"
    ),
    "shift_jis": frozenset(
        "のにはをたがでてとしれさあいるもすんなかこまきっらくだりよっうえおせけそつみ人日一大年本中"
    ),
    "euc_jp": frozenset(
        "のにはをたがでてとしれさあいるもすんなかこまきっらくだりよっうえおせけそつみ人日一大年本中"
    ),
    "euc_kr": frozenset(
        "이다는의에을를가고하지로인은도한사기리그어있으나자서수해대시들정라과전부아적것주일오"
    ),
}
WESTERN = frozenset("éèàùçâêîôûëïüöäßñáíóúãõåæøœÉÈÀÙÇÂÊÎÔÛËÏÜÖÄÑÁÍÓÚÃÕÅÆØŒ«»‘’“”„–—…•°§©®€£¿¡ºª²³½·\xa0")


class Decoded(NamedTuple):
    """A text, the encoding it was read with, and how many characters could not be decoded."""

    text: str
    encoding: str
    undecodable: int = 0


def decode(data: bytes, declared: str | None = None) -> Decoded:
    """The text of some bytes; `declared` is what the file says of itself, believed only if it fits."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _lenient(data, encoding)
    sample = data[:SAMPLE_BYTES]
    for escape, encoding in _ESCAPES:
        if escape in sample and data.isascii():
            return _lenient(data, encoding)
    wide = _utf_16(sample) if b"\0" in sample else None
    try:
        return _lenient(data, wide) if wide else Decoded(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError:
        pass
    mixed = _mixed(data)
    if mixed is not None:
        return mixed
    fitting = _damaged_utf_8(data) or _fitting(sample, declared) or _east_asian(sample)
    return _lenient(data, fitting or _other(sample))


def _lenient(data: bytes, encoding: str) -> Decoded:
    text = data.decode(encoding, "replace")
    return Decoded(text, encoding.removesuffix("-sig"), text.count("\ufffd"))


def _utf_16(sample: bytes) -> str | None:
    """UTF-16 without a mark: every other byte of ASCII text is zero."""
    if len(sample) < 8:
        return None
    half = len(sample) // 2
    even, odd = sample[0::2].count(0) / half, sample[1::2].count(0) / half
    if odd > 0.4 and even < 0.05:
        return "utf-16-le"
    return "utf-16-be" if even > 0.4 and odd < 0.05 else None


def _mixed(data: bytes) -> Decoded | None:
    """The text of a file with lines in UTF-8 and lines in one East Asian encoding; None if it is not such."""
    lines = data.split(b"\n")
    others = [line for line in lines if not _is_utf_8(line)]
    rest = b"\n".join(others)
    whole = sum(_beyond_ascii(line) >= CERTAIN_BYTES for line in lines if _is_utf_8(line))
    if not whole or not rest:
        return None
    sample = rest[:SAMPLE_BYTES]
    encoding = _east_asian(sample)
    if encoding is None or _score(sample, encoding, FREQUENT[encoding]) < LEAST_FREQUENT_MIXED:
        return None
    text = "\n".join(line.decode("utf-8" if _is_utf_8(line) else encoding, "replace") for line in lines)
    return Decoded(text, f"utf-8+{encoding}", text.count("\ufffd"))


def _is_utf_8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _beyond_ascii(line: bytes) -> int:
    return sum(byte >= 0x80 for byte in line)


def _damaged_utf_8(data: bytes) -> str | None:
    text = data[:SAMPLE_BYTES].decode("utf-8", "replace")
    beyond_ascii = sum(1 for character in text if character > "\x7f")
    faults = text.count("\ufffd")
    return "utf-8" if faults <= MOST_DAMAGE * len(text) and faults <= beyond_ascii / 4 else None


def _fitting(sample: bytes, declared: str | None) -> str | None:
    if not declared:
        return None
    try:
        name = codecs.lookup(declared.strip()).name
        text = sample.decode({"gb2312": "gb18030", "gbk": "gb18030"}.get(name, name), "replace")
    except (LookupError, UnicodeError):
        return None
    fits = text.count("\ufffd") <= MOST_DAMAGE * len(text)
    return {"gb2312": "gb18030", "gbk": "gb18030"}.get(name, name) if fits else None


def _east_asian(sample: bytes) -> str | None:
    scores = {encoding: _score(sample, encoding, frequent) for encoding, frequent in FREQUENT.items()}
    best = max(scores, key=scores.__getitem__)
    return best if scores[best] > LEAST_FREQUENT else None


def _score(sample: bytes, encoding: str, frequent: frozenset[str]) -> float:
    """The share of frequent characters among the letters beyond Latin; 0 where the bytes do not fit."""
    text = codecs.getincrementaldecoder(encoding)("replace").decode(sample)
    faults = text.count("\ufffd")
    letters = [character for character in text if character > "\u02ff" and character.isalpha()]
    if not letters or faults > MOST_DAMAGE * len(text):
        return 0.0
    return sum(map(frequent.__contains__, letters)) / (len(letters) + 8 * faults)


def _other(sample: bytes) -> str:
    from charset_normalizer import from_bytes

    western = sample.decode("cp1252", "replace")
    if all(character in WESTERN for character in western if character > "\x7f"):
        return "cp1252"
    best = from_bytes(sample).best()
    return best.encoding if best is not None else "cp1252"
