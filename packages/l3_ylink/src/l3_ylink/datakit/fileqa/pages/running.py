"""Running headers and footers: lines that come back at the same place of page after page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from .lines import Line

EDGE = 0.14
"""The share of a page's height, at its top and at its bottom, in which such lines stand."""

SAME_HEIGHT = 4.0
MOST_ROWS = 3
ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
NUMBER = re.compile(r"\d+|\b[ivxlc]+\b", re.IGNORECASE)
ONLY_NUMBER = re.compile(
    r"^\W*(?:page|第)?\s*(?:\d+|[ivxlc]+)\s*(?:页)?(?:\s*(?:/|of|共)\s*\d+\s*页?)?\W*$", re.IGNORECASE
)


class Row(NamedTuple):
    """A row at a page's edge: its height, its words with numbers made equal, and its lines."""

    height: float
    shape: str
    lines: tuple[Line, ...]
    page: int = 0

    @property
    def numbers(self) -> list[int]:
        """All numbers of the row in order, Arabic or Roman."""
        return [_value(found) for found in NUMBER.findall(self.words)]

    @property
    def number(self) -> int | None:
        """The number that stands by itself in the row, perhaps the page's."""
        return next((int(line.text) for line in self.lines if line.text.isdecimal()), None)

    @property
    def words(self) -> str:
        """The row's text."""
        return " ".join(line.text for line in self.lines)


def edge_rows(lines: Sequence[Line], height: float, page: int) -> list[Row]:
    """The first and last rows of a page that stand near its edges."""
    rows: dict[float, list[Line]] = {}
    for line in sorted(lines, key=lambda line: line.baseline):
        place = next((at for at in rows if abs(at - line.baseline) < 0.5 * line.size), line.baseline)
        rows.setdefault(place, []).append(line)
    levels = sorted(rows)
    top = [level for level in levels[:MOST_ROWS] if level < EDGE * height]
    bottom = [level for level in levels[-MOST_ROWS:] if level > (1 - EDGE) * height]
    return [_row(level, rows[level], page) for level in dict.fromkeys((*top, *bottom))]


def _row(level: float, lines: list[Line], page: int) -> Row:
    lines.sort(key=lambda line: line.box[0])
    text = " ".join(line.text for line in lines)
    return Row(level, re.sub(r"\s+", "", NUMBER.sub("0", text)), tuple(lines), page)


def running_lines(rows: Sequence[Row], others: Sequence[Sequence[Row]]) -> set[Line]:
    """Which lines of a page's edge rows run: the same row, numbers aside, stands on pages around it.

    So does a row whose other words change if it holds the number of the page.  `others` are the edge rows of
    the pages around.
    """
    found: set[Line] = set()
    for row in rows:
        alike = sum(any(_alike(row, other) for other in page) for page in others)
        needed = 1 if len(others) <= 2 else 2
        number_only = bool(ONLY_NUMBER.match(row.words)) and len(row.words) < 20
        placed = sum(any(abs(row.height - other.height) <= SAME_HEIGHT for other in page) for page in others)
        counted = sum(any(_counts(row, other) for other in page) for page in others)
        if alike >= needed or counted >= max(needed, 2) or (number_only and placed >= needed):
            found.update(row.lines)
    return found


def _counts(row: Row, other: Row) -> bool:
    """Whether the numbers of two rows at one height differ as their pages do."""
    if row.number is None or other.number is None or abs(row.height - other.height) > SAME_HEIGHT:
        return False
    return row.number - row.page == other.number - other.page


def _alike(row: Row, other: Row) -> bool:
    """The same words at the same height; a number may differ as the pages do."""
    if row.shape != other.shape or abs(row.height - other.height) > SAME_HEIGHT:
        return False
    pairs = list(zip(row.numbers, other.numbers, strict=False))
    return row.words == other.words or any(one - row.page == two - other.page for one, two in pairs)


def _value(number: str) -> int:
    if number.isdecimal():
        return int(number)
    values = [ROMAN[letter] for letter in number.lower()]
    after = [*values[1:], 0]
    return sum(-one if one < next_one else one for one, next_one in zip(values, after, strict=True))
