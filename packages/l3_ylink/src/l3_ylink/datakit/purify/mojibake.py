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
from .misread import repair_chinese
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
LATIN_CERTAIN = 8
"""Characters of the longest run from which GBK read as Latin-1 is believed: four Chinese ones."""

LIKELY = -8.0
"""Nats a character that a text must reach to be Chinese: clean text has -4 to -7, misread text -11."""

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
    if not seen & (HIGH_LATIN | ODD | TONE):
        return Repaired(text)
    before = text
    if seen & HIGH_LATIN and LATIN_RUN.search(text):
        text = "\n".join(map(_line, text.split("\n")))
    if seen & (ODD | TONE):
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
    """Undoes GBK read as Latin-1 or Windows-1252, where a run of some length becomes likely Chinese."""
    runs = LATIN_RUN.findall(line)
    read = {run: _read(run) for run in runs}
    if not any(len(run) >= LATIN_CERTAIN and _certain(read[run]) for run in runs):
        return line
    return LATIN_RUN.sub(lambda match: read[match[0]] or match[0], line)


def _read(run: str) -> str | None:
    try:
        text = run.encode("latin-1" if max(run) <= "\u00ff" else "sloppy-windows-1252").decode("gb18030")
    except (UnicodeError, LookupError):
        return None
    return text


def _certain(text: str | None) -> bool:
    if text is None:
        return False
    symbols = chinese().symbols(codes_of(text))
    return bool((symbols != RARE).mean() > 0.9) and chinese().score(text) > LIKELY * len(text)
