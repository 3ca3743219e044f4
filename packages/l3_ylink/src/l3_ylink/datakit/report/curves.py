"""Threshold curves: for every threshold, what share of the documents would hold it if it lay elsewhere.

One pass over the stored columns.  Values are counted in cells of equal relative width (the upper half of
a 32-bit float), so that memory does not depend on the number of documents; within a cell, at most 1/128
of the value, documents are not told apart.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from l3_ylink._kit.files import atomic_write
from l3_ylink.datakit.decide import Decisions
from l3_ylink.datakit.documents.store import LazyColumns, Signals, disk
from l3_ylink.datakit.quality.rules import kind_of
from l3_ylink.datakit.steps.base import KEPT

from .dials import Dial

CELLS = 1 << 16
POINTS = 41
EDGE = 0.005
"""Share of the documents beyond each end of the curve."""
WIDE = 50.0
"""From this ratio of its ends on a curve's axis is logarithmic."""

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


@dataclass
class Curve:
    """One threshold over the documents that came to its step: `points` are (where, share that holds)."""

    dial: Dial
    count: int
    held: float
    low: float
    high: float
    logarithmic: bool
    points: list[tuple[float, float]] = field(default_factory=list)


class Tally:
    """Counts the values that each threshold is held against."""

    def __init__(self, dials: Sequence[Dial]) -> None:
        self.dials = [dial for dial in dials if dial.signal]
        self.cells: dict[tuple[int, str, str, bool], I64] = {}
        self.held = dict.fromkeys(self.dials, 0)

    def add(self, columns: LazyColumns, steps: npt.NDArray[np.int16]) -> None:
        """Counts the documents of a stored block; `steps` says which step dropped each."""
        kinds = _kinds(columns, len(steps))
        counted = set()
        for dial in self.dials:
            if dial.signal not in columns:
                continue
            values = np.asarray(columns[dial.signal], np.float64)
            mask = (steps == KEPT) | (steps >= dial.place)
            if dial.kind:
                mask &= kinds == dial.kind
            if dial.scored:
                mask &= values >= 0
            values = values[mask]
            if dial.value is not None:
                holds = values >= dial.value if dial.bound == "min" else values <= dial.value
                self.held[dial] += int(holds.sum())
            if (key := _key(dial)) not in counted:
                counted.add(key)
                before = self.cells.get(key, 0)
                self.cells[key] = before + np.bincount(cell_of(values), minlength=CELLS).astype(np.int64)

    def curves(self) -> list[Curve]:
        """The curves of the thresholds that have documents to hold against them."""
        found = [
            _curve(dial, self.cells[_key(dial)], self.held[dial])
            for dial in self.dials
            if _key(dial) in self.cells
        ]
        return [curve for curve in found if curve is not None]


def curves(signals: Signals, decisions: Decisions, dials: Sequence[Dial]) -> list[Curve]:
    """The curves of all thresholds, from the stored columns."""
    tally = Tally(dials)
    for number in range(len(signals.blocks)):
        tally.add(signals.columns(number), decisions.verdicts(number).step)
    return tally.curves()


def write_curves(path: Path, found: Sequence[Curve]) -> None:
    """Keeps the curves for the page, where thresholds are sliders."""
    with disk(path):
        atomic_write(path, json.dumps([asdict(curve) | {"dial": curve.dial._asdict()} for curve in found]))


def read_curves(path: Path) -> list[Curve]:
    """The curves of a finished run; none where it kept none."""
    if not path.exists():
        return []
    return [
        Curve(
            **{**entry, "dial": Dial(**entry["dial"]), "points": [tuple(point) for point in entry["points"]]}
        )
        for entry in json.loads(path.read_bytes())
    ]


def _key(dial: Dial) -> tuple[int, str, str, bool]:
    return dial.place, dial.signal, dial.kind, dial.scored


def _kinds(columns: LazyColumns, count: int) -> npt.NDArray[np.object_]:
    names = list(columns["language"]) if "language" in columns else ["und"] * count
    kinds = {name: kind_of(name) for name in set(names)}
    return np.asarray([kinds[name] for name in names], object)


def cell_of(values: F64) -> I64:
    """The cell of each value: the order of cells is the order of values."""
    bits = (values + 0.0).astype(np.float32).view(np.uint32)  # -0.0 is 0.0
    ordered = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    return (ordered >> 16).astype(np.int64)


def value_of(cell: int) -> float:
    """The least value of a cell."""
    bits = np.uint32(cell << 16)
    bits = bits & np.uint32(0x7FFFFFFF) if cell >> 15 else ~bits
    return float(np.asarray(bits, np.uint32).view(np.float32))


def _curve(dial: Dial, cells: I64, held: int) -> Curve | None:
    count = int(cells.sum())
    if not count:
        return None
    upto = np.cumsum(cells)
    low = value_of(int(np.searchsorted(upto, EDGE * count, side="right")))
    high = value_of(int(np.searchsorted(upto, (1 - EDGE) * count)))
    if dial.value is not None:
        low, high = min(low, dial.value), max(high, dial.value)
    if high <= low:
        high = low + (abs(low) or 1.0)
    logarithmic = low > 0 and high / low > WIDE
    where = np.geomspace(low, high, POINTS) if logarithmic else np.linspace(low, high, POINTS)
    below = np.concatenate([[0], upto])[cell_of(where)] / count
    shares = 1 - below if dial.bound == "min" else np.concatenate([[0], upto])[cell_of(where) + 1] / count
    points = [(float(f"{x:.6g}"), round(float(y), 4)) for x, y in zip(where, shares, strict=True)]
    return Curve(dial, count, round(held / count, 4), low, high, logarithmic, points)
