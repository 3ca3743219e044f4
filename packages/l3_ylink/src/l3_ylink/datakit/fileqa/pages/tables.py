"""Tables from ruling lines: crossing lines give cells, three of equal length a table without uprights."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from l3_ylink.datakit.fileqa.blocks import Box, Cell, Table

from .characters import Page, Rule
from .lines import page_lines
from .wrap import join_lines

TOUCH = 3.0
"""Points by which lines may miss one another and still meet."""

MOST_COLUMNS, MOST_ROWS = 64, 400
LEAST_FILLED = 0.3
LEAST_UNRULED = 3
"""So many lines at the same heights in all columns are rows, even without a line between them."""


class Found(NamedTuple):
    """A table on a page, where it is, the left edges of its columns, and which characters are in it."""

    box: Box
    edges: tuple[float, ...]
    table: Table
    members: npt.NDArray[np.bool_]


def find_tables(page: Page, number: int) -> list[Found]:
    """The tables of a page, from the top down; `number` is the page's, for the spans."""
    across, down = merged(page.across), merged(page.down)
    found = []
    for lines, uprights in _crossing(across, down):
        table = _ruled(page, number, lines, uprights)
        if table is not None:
            found.append(table)
    inside = [table.box for table in found]
    free = [rule for rule in across if not any(_within(rule, box) for box in inside)]
    for lines in _stacks(free):
        table = _open(page, number, lines)
        if table is not None:
            found.append(table)
    return sorted(found, key=lambda table: (table.box[1], table.box[0]))


def merged(rules: Sequence[Rule]) -> list[Rule]:
    """Lines on one level that touch or overlap become one line."""
    found: list[Rule] = []
    for rule in sorted(rules, key=lambda rule: (round(rule.at), rule.start)):
        for place in range(len(found) - 1, max(len(found) - 40, -1), -1):
            other = found[place]
            if (
                abs(other.at - rule.at) <= 1.5
                and rule.start <= other.end + TOUCH
                and rule.end >= other.start - TOUCH
            ):
                found[place] = Rule(other.at, min(other.start, rule.start), max(other.end, rule.end))
                break
        else:
            found.append(rule)
    return found


def _within(rule: Rule, box: Box) -> bool:
    return box[1] - TOUCH <= rule.at <= box[3] + TOUCH and rule.start < box[2] and rule.end > box[0]


def _crossing(across: list[Rule], down: list[Rule]) -> list[tuple[list[Rule], list[Rule]]]:
    """Groups of lines that meet one another."""
    if not across or not down or len(across) * len(down) > 4_000_000:
        return []
    level = np.array(across)
    upright = np.array(down)
    meets = (
        (level[:, None, 1] - TOUCH <= upright[None, :, 0])
        & (upright[None, :, 0] <= level[:, None, 2] + TOUCH)
        & (upright[None, :, 1] - TOUCH <= level[:, None, 0])
        & (level[:, None, 0] <= upright[None, :, 2] + TOUCH)
    )
    groups = []
    left = set(range(len(down)))
    while left:
        start = left.pop()
        columns, rows, fresh = {start}, set[int](), [start]
        while fresh:
            new = set(np.flatnonzero(meets[:, fresh].any(axis=1)).tolist()) - rows
            rows |= new
            fresh = list(set(np.flatnonzero(meets[list(new)].any(axis=0)).tolist()) - columns) if new else []
            columns |= set(fresh)
        left -= columns
        if len(rows) >= 2:
            groups.append(
                ([across[row] for row in sorted(rows)], [down[column] for column in sorted(columns)])
            )
    return groups


def _levels(values: Sequence[float]) -> list[float]:
    """Values within `TOUCH` of one another are one."""
    found: list[list[float]] = []
    for value in sorted(values):
        if found and value - found[-1][-1] <= TOUCH:
            found[-1].append(value)
        else:
            found.append([value])
    return [sum(group) / len(group) for group in found]


def _ruled(page: Page, number: int, across: list[Rule], down: list[Rule]) -> Found | None:
    x0, x1 = min(rule.start for rule in across), max(rule.end for rule in across)
    y0, y1 = min(rule.start for rule in down), max(rule.end for rule in down)
    xs = _levels([rule.at for rule in down] + [x0, x1])
    ys = _levels([rule.at for rule in across] + [y0, y1])
    if not (3 <= len(xs) <= MOST_COLUMNS + 1 and 2 <= len(ys) <= MOST_ROWS + 1):
        return None
    box = (xs[0], ys[0], xs[-1], ys[-1])
    members, column = _columns(page, box, xs)
    if len(ys) <= 3:
        added = [y for band in pairwise(ys) for y in _unruled_rows(page, members, column, band)]
        across = [*across, *(Rule(y, x0, x1) for y in added)]
        ys = sorted([*ys, *added])
    row = np.searchsorted(ys, _centres(page, 1), side="right") - 1
    areas = _areas(xs, ys, across, down)
    rows: list[list[tuple[int, Cell]]] = [[] for _ in ys[1:]]
    for top, left, high, wide in areas:
        chosen = members & (row >= top) & (row < top + high) & (column >= left) & (column < left + wide)
        rows[top].append((left, _cell(page, number, np.flatnonzero(chosen), wide, high)))
    return _found(page, box, xs, rows, members)


def _unruled_rows(
    page: Page, members: npt.NDArray[np.bool_], column: npt.NDArray[np.int64], band: tuple[float, float]
) -> list[float]:
    """Where the rows of a band end that has uprights only: every column has its lines at the same heights."""
    middle = _centres(page, 1)
    inside = members & (middle > band[0]) & (middle < band[1])
    levels = [
        _levels(np.unique(page.baselines[inside & (column == place)]).tolist())
        for place in np.unique(column[inside]).tolist()
    ]
    if len(levels) < 2 or len(levels[0]) < LEAST_UNRULED:
        return []
    for other in levels[1:]:
        same = len(other) == len(levels[0])
        if not same or any(abs(one - two) > TOUCH for one, two in zip(levels[0], other, strict=True)):
            return []
    size = float(np.median(page.sizes[inside]))
    return [level + 0.3 * size for level in levels[0][:-1]]


def _found(
    page: Page,
    box: Box,
    xs: Sequence[float],
    rows: list[list[tuple[int, Cell]]],
    members: npt.NDArray[np.bool_],
) -> Found | None:
    """The table if it is one: text in two columns at least, and not the frame of a listing."""
    kept = [tuple(cell for _, cell in sorted(row, key=lambda item: item[0])) for row in rows]
    covered = {
        below for top, row in enumerate(kept) for cell in row for below in range(top + 1, top + cell.rows)
    }
    full = [
        row
        for place, row in enumerate(kept)
        if place in covered or any(cell.text or cell.rows > 1 for cell in row)
    ]
    filled = {place for row in rows for place, cell in row if cell.text}
    cells = [cell for row in full for cell in row]
    if len(filled) < 2 or sum(bool(cell.text) for cell in cells) < LEAST_FILLED * len(cells):
        return None
    if _is_listing(page, full, members):
        return None
    header = 1 if len(full) > 1 else 0
    return Found(box, tuple(xs[:-1]), Table(tuple(full), header), members)


def _is_listing(page: Page, rows: list[tuple[Cell, ...]], members: npt.NDArray[np.bool_]) -> bool:
    """Code beside its line numbers, in a frame."""
    if any(len(row) != 2 for row in rows):
        return False
    numbers = "\n".join(row[0].text for row in rows).split()
    counted = all(value.isdigit() for value in numbers) and len(numbers) > 1
    return counted and bool(page.mono[members].mean() > 0.8) and len(rows) < len(numbers)


def _areas(
    xs: list[float], ys: list[float], across: list[Rule], down: list[Rule]
) -> list[tuple[int, int, int, int]]:
    """Cells as (row, column, rows, columns): places without a line between them are one cell."""
    high, wide = len(ys) - 1, len(xs) - 1
    group = np.arange(high * wide).reshape(high, wide)
    for y in range(high):
        middle = (ys[y] + ys[y + 1]) / 2
        for x in range(1, wide):
            if not any(abs(r.at - xs[x]) <= TOUCH and r.start <= middle <= r.end for r in down):
                group[group == group[y, x]] = group[y, x - 1]
    for x in range(wide):
        middle = (xs[x] + xs[x + 1]) / 2
        for y in range(1, high):
            if not any(abs(r.at - ys[y]) <= TOUCH and r.start <= middle <= r.end for r in across):
                group[group == group[y, x]] = group[y - 1, x]
    areas = []
    for value in np.unique(group).tolist():
        rows, columns = np.nonzero(group == value)
        top, left = int(rows.min()), int(columns.min())
        height, width = int(rows.max()) - top + 1, int(columns.max()) - left + 1
        if len(rows) == height * width:
            areas.append((top, left, height, width))
        else:
            areas += [(int(y), int(x), 1, 1) for y, x in zip(rows, columns, strict=True)]
    return areas


def _centres(page: Page, axis: int) -> npt.NDArray[np.float64]:
    middle: npt.NDArray[np.float64] = (page.boxes[:, axis] + page.boxes[:, axis + 2]) / 2
    return middle


def _inside(page: Page, box: Box) -> npt.NDArray[np.bool_]:
    x, y = _centres(page, 0), _centres(page, 1)
    inside: npt.NDArray[np.bool_] = (
        (x >= box[0] - 1) & (x <= box[2] + 1) & (y >= box[1]) & (y <= box[3]) & page.upright
    )
    return inside


def _columns(page: Page, box: Box, xs: list[float]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Which characters are in a table, and in which of its columns.

    A word belongs where it starts: one that is too long for its cell is printed over the edge.
    """
    inside = _inside(page, box)
    column = np.searchsorted(xs, _centres(page, 0), side="right") - 1
    members = inside.copy()
    first = np.flatnonzero(_word_starts(page))
    ends = np.r_[first[1:], len(inside)]
    before: deque[int] = deque(maxlen=4)
    for start, end in zip(first.tolist(), ends.tolist(), strict=True):
        if not inside[start]:
            before.clear()
            continue
        place = int(column[start])
        for number, last in enumerate(before):
            if _runs_over(page, last, start, xs[int(column[last]) + 1], next_word=not number):
                place = int(column[last])
                break
        column[start:end] = place
        members[start:end] = True
        before.appendleft(end - 1)
    return members, column


def _runs_over(page: Page, last: int, start: int, edge: float, *, next_word: bool) -> bool:
    """Whether a word follows on one that ended beyond its cell's edge, or touches one that ended at it."""
    size = page.sizes[start]
    gap, over = page.boxes[start, 0] - page.boxes[last, 2], page.boxes[last, 2] - edge
    if abs(page.baselines[start] - page.baselines[last]) >= 0.3 * size:
        return False
    touches = abs(gap) < 0.05 * size and over > -0.5 * size
    return bool(touches or (next_word and over > 0.5 and -0.02 * size < gap < 0.45 * size))


def _word_starts(page: Page) -> npt.NDArray[np.bool_]:
    """Where a character does not touch the one before it."""
    starts = np.ones(len(page.codes), bool)
    gap = page.boxes[1:, 0] - page.boxes[:-1, 2]
    apart = (gap > 0.12 * page.sizes[1:]) | (gap < -0.3 * page.sizes[1:])
    starts[1:] = apart | (page.run[1:] != page.run[:-1])
    return starts


def _cell(page: Page, number: int, chosen: npt.NDArray[np.int64], wide: int, high: int) -> Cell:
    text, spans = join_lines(page_lines(page, chosen, whole_rows=True), number)
    return Cell(text, tuple(spans), wide, high)


def _stacks(rules: list[Rule]) -> list[list[Rule]]:
    """Three or more lines of the same length under one another."""
    stacks: list[list[Rule]] = []
    for rule in sorted(rules, key=lambda rule: rule.at):
        for stack in stacks:
            if abs(stack[0].start - rule.start) <= TOUCH and abs(stack[0].end - rule.end) <= TOUCH:
                stack.append(rule)
                break
        else:
            stacks.append([rule])
    return [stack for stack in stacks if len(stack) >= 3]


def _open(page: Page, number: int, rules: list[Rule]) -> Found | None:
    """A table with lines across only; its columns are where no row of it has a letter."""
    ys = [rule.at for rule in rules]
    box = (rules[0].start, ys[0], rules[0].end, ys[-1])
    if box[3] - box[1] > 0.7 * page.height:
        return None
    members = _inside(page, box)
    chosen = np.flatnonzero(members)
    if len(chosen) < 4:
        return None
    lines = page_lines(page, chosen, whole_rows=True)
    xs = _gutters(page, chosen, box)
    if len(xs) < 3 or len(xs) > MOST_COLUMNS:
        return None
    rows: list[list[tuple[int, Cell]]] = []
    column = np.searchsorted(xs, _centres(page, 0)[chosen], side="right") - 1
    for line in lines:
        in_line = (page.index[chosen] >= line.chars[0]) & (page.index[chosen] < line.chars[1])
        on_line = in_line & (np.abs(page.baselines[chosen] - line.baseline) < 0.5 * line.size)
        parts = [chosen[on_line & (column == place)] for place in range(len(xs) - 1)]
        if not len(parts[0]) and rows:
            return None  # a row over several lines: without uprights there is no telling
        rows.append([(place, _cell(page, number, part, 1, 1)) for place, part in enumerate(parts)])
    pairs = sum(sum(bool(cell.text) for _, cell in row) >= 2 for row in rows)
    if pairs < 0.7 * len(rows) or len(rows) < 2:
        return None
    return _found(page, box, xs, rows, members)


def _gutters(page: Page, chosen: npt.NDArray[np.int64], box: Box) -> list[float]:
    """Edges of columns: stretches of at least one letter's size over which nothing is written."""
    size = float(np.median(page.sizes[chosen]))
    spans = page.boxes[chosen][:, [0, 2]]
    spans = spans[np.argsort(spans[:, 0])]
    reach = np.maximum.accumulate(spans[:, 1])
    gaps = np.flatnonzero(spans[1:, 0] - reach[:-1] > size)
    return [box[0], *((spans[place + 1, 0] - 1.0) for place in gaps.tolist()), box[2]]
