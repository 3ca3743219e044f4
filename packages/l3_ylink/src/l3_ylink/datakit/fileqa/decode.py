"""Bytes to text: which encoding a file is in, judged by what the characters would be.

A valid UTF-8 file of any length is UTF-8.  Else each East Asian encoding that decodes without fault is
scored by how many of its characters are among the most frequent of the language that it is made for, and
the best wins; other files are Western where only Western letters come out, else charset-normalizer's.
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
    wide = _utf_16(sample) if b"\0" in sample else None
    try:
        return _lenient(data, wide) if wide else Decoded(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError:
        pass
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
