"""Mojibake, repaired only where it is certain: what was right is never touched.

Mechanisms, line by line: UTF-8 read as a Western encoding ("donâ€™t"), which ftfy undoes where its own
detector calls a line bad; GBK read as Latin-1 ("ÄãºÃ"); UTF-8 read as GBK ("浣犲ソ"); GBK read one byte late
("槊恳粚佣"), with the pinyin that caused it.  The last three are judged by a model of Chinese characters.
All this comes before any other change of the text: afterwards the bytes can no longer be told.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from l3_ylink.datakit.quality.characters import codes_of

from .chinese import RARE, chinese
from .misread import MAYBE_BROKEN, repair_chinese
from .pinyin import Policy, strip

WESTERN = re.compile(
    "[\u00c2-\u00f4][\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc"
    "\u2013-\u203a\u20ac\u2122]"
)
HIGH = (
    "\u0080-\u00ff\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013-\u2026"
    "\u2030\u2039\u203a\u20ac\u2122"
)
LATIN_RUN = re.compile(f"[{HIGH}]{{2,}}")
WINDOWS = {
    text: byte for byte in range(0x80, 0xA0) for text in [bytes((byte,)).decode("cp1252", "ignore")] if text
}
LATIN_CERTAIN = 8
"""Characters of the longest run from which GBK read as Latin-1 is believed: four Chinese ones."""

LIKELY, KNOWN = -9.5, 0.8
"""Nats a character that a text must reach to be Chinese (clean text has -4 to -7, old poems -9, misread text
-12), and how many of its characters the model must know."""

TONES = "āáǎàēéěèīíǐìōóǒòūúǔùǖǘǚǜ"
ODD, HIGH_LATIN, TONE = 1, 2, 4

HAN = re.compile("[\u3400-\u9fff\ue000-\uf8ff]")


class Repaired(NamedTuple):
    """A text after repair: how many lines changed, and how many annotations went."""

    text: str
    lines: int = 0
    annotations: int = 0


def repair(text: str, *, pinyin: Policy = "converted") -> Repaired:
    """The text with its damaged lines restored and left-behind annotations taken out."""
    if text.isascii():
        return Repaired(text)
    seen = _seen(text)
    text, annotations = strip(text, pinyin) if seen & TONE else (text, 0)
    before = text
    if seen & HIGH_LATIN and LATIN_RUN.search(text):
        text = "\n".join(map(_line, text.split("\n")))
    if seen & (ODD | TONE) or MAYBE_BROKEN.search(text):
        text = repair_chinese(text)
    changed = 0
    if text != before:
        changed = sum(old != new for old, new in zip(before.split("\n"), text.split("\n"), strict=True))
    return Repaired(text, changed, annotations)


@cache
def _kinds() -> npt.NDArray[np.uint8]:
    kinds = np.where(chinese().odd, ODD, 0).astype(np.uint8)
    kinds[0xFFFD] |= ODD
    kinds[0xA1:0x100] |= HIGH_LATIN
    kinds[0x80:0xA0] |= HIGH_LATIN
    kinds[[ord(letter) for letter in TONES]] |= TONE
    return kinds


def _seen(text: str) -> int:
    """Which signs of damage a text has at all: most texts are spared the rest."""
    return int(np.bitwise_or.reduce(_kinds()[np.minimum(codes_of(text), 0xFFFF)]))


def _line(line: str) -> str:
    """A line with Chinese characters was not read in a Western encoding: what looks so is an example."""
    if line.isascii() or not LATIN_RUN.search(line) or HAN.search(line):
        return line
    fixed = _gbk_as_latin(line)
    return _western(line) if fixed == line and WESTERN.search(line) else fixed


def _western(line: str) -> str:
    import ftfy
    from ftfy.badness import badness

    before = badness(line)
    if not before:
        return line
    fixed = ftfy.fix_encoding(line)
    return fixed if badness(fixed) < before and len(fixed) < len(line) else line


def _gbk_as_latin(line: str) -> str:
    """Undoes GBK read as Latin-1 or Windows-1252, where the line or long runs become likely Chinese."""
    whole = _read(line)
    if whole is not None and len(HAN.findall(whole)) >= LATIN_CERTAIN // 2 and _certain(whole):
        return whole
    runs = LATIN_RUN.findall(line)
    read = {run: _read(run) for run in runs}
    if not any(len(run) >= LATIN_CERTAIN and _certain(read[run]) for run in runs):
        return line
    return LATIN_RUN.sub(lambda match: read[match[0]] or match[0], line)


def _read(run: str) -> str | None:
    """Western characters as the bytes they were, read as GB 18030; None where that cannot be."""
    data = bytearray()
    for character in run:
        code = ord(character)
        if code < 0x100:
            data.append(code)
        elif character in WINDOWS:
            data.append(WINDOWS[character])
        else:
            return None
    try:
        return data.decode("gb18030")
    except UnicodeError:
        return None


def _certain(text: str | None) -> bool:
    if text is None:
        return False
    beyond = "".join(character for character in text if character > "\x7f")
    symbols = chinese().symbols(codes_of(beyond))
    return bool((symbols != RARE).mean() > KNOWN) and chinese().score(beyond) > LIKELY * len(beyond)
