"""Tables without any ruling lines: rows whose pieces stand under one another, with white stripes between."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence

from l3_ylink.datakit.fileqa.blocks import Cell, Span, Table

from .lines import Line
from .wrap import chars, rounded

LEAST_ROWS = 3
LEAST_ROWS_OF_TWO = 4
ROW_GAP = 1.6
"""More white than this many sizes under a row ends a table."""

LONGEST_CELL = 60
MARKER = re.compile(r"^(?:[•◦▪–—*\-]|[(（]?(?:\d{1,3}(?:\.\d{1,3})*|[a-zA-Z])[.)）、]?)$")
Pieces = Sequence[Line]


def aligned_table(rows: Sequence[Pieces], page: int) -> tuple[Table, int] | None:
    """The table that the first rows make, and how many rows it takes; None where they are running text."""
    count = _run(rows)
    while count >= LEAST_ROWS:
        stripes = _stripes(rows[:count])
        if _is_table(rows[:count], stripes):
            return _table(rows[:count], stripes, page), count
        count -= 1 if count < 12 else count // 4
    return None


def _run(rows: Sequence[Pieces]) -> int:
    """How many rows follow one another closely, each of two pieces at least, none of them code."""
    count = 0
    for number, row in enumerate(rows):
        if len(row) < 2 or any(piece.mono > 0.8 and piece.shaded for piece in row):
            break
        if number and (row[0].baseline - rows[number - 1][0].baseline) > (1 + ROW_GAP) * row[0].size:
            break
        count += 1
    return count


def _stripes(rows: Sequence[Pieces]) -> list[tuple[float, float]]:
    """The columns: stretches along x that pieces cover, joined where they overlap."""
    found: list[tuple[float, float]] = []
    for left, right in sorted((piece.box[0], piece.box[2]) for row in rows for piece in row):
        if found and left < found[-1][1] + 1.0:
            found[-1] = (found[-1][0], max(found[-1][1], right))
        else:
            found.append((left, right))
    return found


def _is_table(rows: Sequence[Pieces], stripes: list[tuple[float, float]]) -> bool:
    columns = len(stripes)
    if columns < 2 or sum(len(row) == columns for row in rows) < 0.7 * len(rows):
        return False
    texts = [[piece.text for piece in row] for row in rows]
    if all(MARKER.match(row[0]) for row in texts) or any(
        len(text) > LONGEST_CELL for row in texts for text in row
    ):
        return False
    if columns > 2:
        return True
    lefts = [row[-1].box[0] for row in rows]
    short = statistics.median(len(text) for row in texts for text in row) <= LONGEST_CELL / 3
    return len(rows) >= LEAST_ROWS_OF_TWO and short and max(lefts) - min(lefts) < 3


def _table(rows: Sequence[Pieces], stripes: list[tuple[float, float]], page: int) -> Table:
    made = []
    for row in rows:
        cells = []
        for left, right in stripes:
            piece = next((piece for piece in row if left - 1 <= piece.box[0] <= right), None)
            cells.append(Cell("") if piece is None else _cell(piece, page))
        made.append(tuple(cells))
    return Table(tuple(made), 1)


def _cell(piece: Line, page: int) -> Cell:
    span = Span(0, len(piece.text), page, rounded(piece.box), "", chars(piece))
    return Cell(piece.text, (span,))
