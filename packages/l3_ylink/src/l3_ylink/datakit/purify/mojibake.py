"""Mojibake, repaired only where it is certain: a line that was right is never touched.

Two mechanisms: UTF-8 read as a Western encoding ("donâ€™t"), which ftfy undoes, line by line and only
on lines that its own detector calls bad; and UTF-8 read as GBK ("浣犲ソ"), which is undone where the
line's GBK bytes are UTF-8 (they never are by chance in a line of some length) and the result is made of
commoner characters.
"""

from __future__ import annotations

import re

from l3_ylink.datakit.quality.characters import COMMON_HAN, HAN, characters, codes_of, table_index

SUSPECT = re.compile(
    "[\u00c2-\u00f4][\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013-\u203a\u20ac\u2122]"
)
SUSPECT_HAN = re.compile("[\u3400-\u9fff\ue000-\uf8ff]{2}")
LEAST_HAN = 4
COMMON_ENOUGH = 0.8
"""A line with this share of common characters is Chinese as it stands."""

MOST_LOST = 0.1


def repair(text: str) -> tuple[str, int]:
    """The text with its damaged lines restored, and how many there were."""
    if text.isascii():
        return text, 0
    western, eastern = SUSPECT.search(text), SUSPECT_HAN.search(text)
    if not western and not eastern:
        return text, 0
    if eastern and not western and _common_share(text) >= 0.97:
        return text, 0
    lines = text.split("\n")
    repaired = [_repair_line(line) for line in lines]
    changed = sum(before != after for before, after in zip(lines, repaired, strict=True))
    return ("\n".join(repaired), changed) if changed else (text, 0)


def _repair_line(line: str) -> str:
    if SUSPECT.search(line):
        return _western(line)
    return _read_as_gbk(line) if SUSPECT_HAN.search(line) else line


def _western(line: str) -> str:
    import ftfy
    from ftfy.badness import badness

    before = badness(line)
    if not before:
        return line
    fixed = ftfy.fix_encoding(line)
    return fixed if badness(fixed) < before and len(fixed) < len(line) else line


def _read_as_gbk(line: str) -> str:
    """Undoes UTF-8 read as GBK.  A byte that was lost on the way costs its character, marked U+FFFD."""
    share = _common_share(line)
    if share >= COMMON_ENOUGH or _han(line) < LEAST_HAN:
        return line
    try:
        fixed = line.replace("\ufffd", "").encode("gb18030").decode("utf-8", "replace")
    except UnicodeError:
        return line
    lost = fixed.count("\ufffd")
    certain = (
        _han(fixed) >= 2
        and lost <= MOST_LOST * len(fixed)
        and _common_share(fixed) > max(share, COMMON_ENOUGH)
    )
    return fixed if certain else line


def _han(text: str) -> int:
    return int(((characters().bits[table_index(codes_of(text))] & HAN) != 0).sum())


def _common_share(text: str) -> float:
    bits = characters().bits[table_index(codes_of(text))]
    han = int(((bits & HAN) != 0).sum())
    return int(((bits & COMMON_HAN) != 0).sum()) / han if han else 1.0
