"""ROUGE-L between instructions: what is too like something that is there already is not kept.

Self-Instruct (Wang and others, 2023) drops what has an F of 0.7 or more.  Units are words, and single
characters of Chinese, Japanese and Korean.
"""

from __future__ import annotations

from collections import Counter

import regex  # type: ignore[import-untyped]

UNITS = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]|[\p{L}\p{N}_]+")


def units_of(text: str) -> list[str]:
    """The words and characters of a text, in lower case."""
    found: list[str] = UNITS.findall(text.lower())
    return found


def rouge_l(one: list[str], other: list[str]) -> float:
    """F of the longest common subsequence, from 0 to 1."""
    if not one or not other:
        return 0.0
    shared = _common(one, other)
    return 2 * shared / (len(one) + len(other))


def _common(one: list[str], other: list[str]) -> int:
    """Length of the longest common subsequence (bit-parallel, Hyyrö 2004)."""
    places: dict[str, int] = {}
    for number, unit in enumerate(one):
        places[unit] = places.get(unit, 0) | 1 << number
    row = full = (1 << len(one)) - 1
    for unit in other:
        match = row & places.get(unit, 0)
        row = ((row + match) | (row - match)) & full
    return len(one) - row.bit_count()


class Pool:
    """Instructions that are there already."""

    def __init__(self, texts: list[str] | None = None) -> None:
        self.texts: list[str] = []
        self.units: list[tuple[list[str], Counter[str]]] = []
        for text in texts or []:
            self.add(text)

    def add(self, text: str) -> None:
        """Adds one."""
        units = units_of(text)
        self.texts.append(text)
        self.units.append((units, Counter(units)))

    def nearest(self, text: str, least: float) -> tuple[float, str]:
        """The most similar one and its similarity, if that is `least` or more; else (0, "")."""
        units = units_of(text)
        count = Counter(units)
        best, which = 0.0, ""
        for (others, theirs), known in zip(self.units, self.texts, strict=True):
            whole = len(units) + len(others)
            bound = 2 * (count & theirs).total() / whole if whole else 0.0
            if bound >= max(least, best):
                found = rouge_l(units, others)
                best, which = (found, known) if found > best else (best, which)
        return (best, which) if best >= least else (0.0, "")
