"""Reading order: where a page is set in columns, the left one is read before the right one."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from .lines import Line

LEAST_LINES = 4
"""A column has at least so many lines."""

LEAST_GUTTER = 0.8
"""The gutter's width, in sizes of the letters."""

FULL = 0.6
"""Lines of running text fill so much of their column, in the median; those of a table's column do not."""

LEAST_WIDTH = 9.0
"""A column of text is at least so many sizes of its letters wide."""

INDEXED = re.compile(r"[^\W\d].*, \d+(?:[-–, \d])*$")
STEP = 2.0


def in_reading_order(lines: Sequence[Line]) -> list[list[Line]]:
    """The lines of a page as columns and full-width parts, in the order in which they are read."""
    parts = _parts(list(lines), 0)
    return [sorted(part, key=lambda line: (round(line.baseline), line.box[0])) for part in parts if part]


def _parts(lines: list[Line], depth: int) -> list[list[Line]]:
    gutter = _gutter(lines) if depth < 4 and len(lines) >= 2 * LEAST_LINES else None
    if gutter is None:
        return [lines]
    crossing = [line for line in lines if line.box[0] < gutter < line.box[2]]
    beside = [line for line in lines if not line.box[0] < gutter < line.box[2]]
    cuts = [float("-inf"), *sorted({line.baseline for line in crossing}), float("inf")]
    found, flow = list[list[Line]](), list[Line]()
    for above, below in pairwise(cuts):
        flow += [line for line in crossing if line.baseline == above]
        columns = _band([line for line in beside if above <= line.baseline < below], gutter, depth)
        if len(columns) > 1:
            found += [flow, *columns]
            flow = []
        else:
            flow += columns[0]
    return [part for part in (*found, flow) if part]


def _band(band: list[Line], gutter: float, depth: int) -> list[list[Line]]:
    """The columns of a stretch of a page that no line crosses, or the stretch as it is."""
    left = [line for line in band if line.box[2] <= gutter]
    right = [line for line in band if line.box[0] >= gutter]
    if not (_is_column(left) and _is_column(right)):
        return [band]
    apart = min(line.box[0] for line in right) - max(line.box[2] for line in left)
    if apart < LEAST_GUTTER * statistics.median(line.size for line in band):
        return [band]
    return _parts(left, depth + 1) + _parts(right, depth + 1)


def _is_column(lines: list[Line]) -> bool:
    if len(lines) < LEAST_LINES:
        return False
    if sum(bool(INDEXED.search(line.text)) for line in lines) > 0.5 * len(lines):
        return True  # an index: its lines are of any length
    x0, x1 = min(line.box[0] for line in lines), max(line.box[2] for line in lines)
    if x1 - x0 < LEAST_WIDTH * statistics.median(line.size for line in lines):
        return False  # a column of a table
    return statistics.median((line.box[2] - line.box[0]) / (x1 - x0) for line in lines) >= FULL


def _gutter(lines: list[Line]) -> float | None:
    """The x that fewest lines cross, between two stretches that many do; None for text in one column."""
    x0, x1 = min(line.box[0] for line in lines), max(line.box[2] for line in lines)
    places = int((x1 - x0) / STEP)
    if places < 20:
        return None
    change = np.zeros(places + 2)
    for line in lines:
        change[int((line.box[0] - x0) / STEP)] += 1
        change[min(int((line.box[2] - x0) / STEP) + 1, places + 1)] -= 1
    covered = np.cumsum(change)[:places]
    inner = slice(places // 6, places - places // 6)
    least = float(covered[inner].min())
    lowest = np.flatnonzero(covered[inner] == least) + inner.start
    runs = np.split(lowest, np.flatnonzero(np.diff(lowest) > 1) + 1)
    run = max(runs, key=len)
    sides = min(float(np.median(covered[: run[0]])), float(np.median(covered[run[-1] + 1 :])))
    if least > 0.34 * sides:
        return None
    return x0 + (float(run[0]) + float(run[-1]) + 1) / 2 * STEP
