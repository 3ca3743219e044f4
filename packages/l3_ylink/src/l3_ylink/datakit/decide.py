"""Decisions: the steps look at the stored columns, in order, and each document is kept or dropped.

Blocks are decided one after another; the fates lie in a file of fixed-width records, so that memory does
not depend on the number of documents.  Between two global steps every block is read once.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from l3_ylink._kit.files import atomic_write
from l3_ylink.documents import StepCount

from .documents.columns import array, numbers_or_null, strings
from .documents.earlier import Earlier
from .documents.fates import CUT, Fates, IdFile
from .documents.spill import Spill, position_key
from .documents.store import Signals, disk, write_groups
from .recipe import Recipe
from .steps.base import KEPT, GlobalStep, Step, Table, Verdicts

I64 = npt.NDArray[np.int64]
DROP = np.dtype(
    [
        ("key", np.uint64),
        ("row", np.int64),
        ("reason", np.uint16),
        ("value", np.float64),
        ("threshold", np.float64),
        ("other", np.int64),
    ]
)
DECISION_SCHEMA = pa.schema(
    [
        ("id", pa.large_string()),
        ("kept", pa.bool_()),
        ("step", pa.large_string()),
        ("reason", pa.large_string()),
        ("value", pa.float64()),
        ("threshold", pa.float64()),
        ("other", pa.large_string()),
    ]
)
CUT_SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("step", pa.large_string()),
        ("reason", pa.large_string()),
    ]
)
ALARM_SHARE = 0.9
ALARM_LEAST = 20
NOTHING_LEFT = "nothing_left"


@dataclass(frozen=True)
class Alarm:
    """A global step took nearly all of a source: likely a mistake in the recipe."""

    step: str
    source: str
    seen: int
    dropped: int


@dataclass
class Decisions:
    """What each document's fate is, block by block, and the funnel: what each step saw, kept and dropped."""

    signals: Signals
    fates: Fates
    earlier: Earlier
    funnel: list[StepCount] = field(default_factory=list)
    alarms: list[Alarm] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many documents there are."""
        return len(self.signals)

    @property
    def kept_count(self) -> int:
        """How many documents stay."""
        return self.funnel[-1].kept if self.funnel else self.count

    def verdicts(self, number: int) -> Verdicts:
        """The fates of a stored block."""
        return self.fates.read(number)

    def kept(self, number: int) -> I64:
        """The rows of a stored block that stay."""
        return np.flatnonzero(self.verdicts(number).alive)

    def id_of(self, row: int) -> str | None:
        """The id of a row of the run; None for -1."""
        if row < 0:
            return None
        if row >= len(self.signals):
            return self.earlier.ids([row])[0]
        number = self.signals.block_of(row)
        found: str = self.signals.columns(number)["id"][row - int(self.signals.first[number])]
        return found

    def cuts(self, number: int) -> npt.NDArray[Any]:
        """The spans taken out of a block's texts: records of row, start, end, step and reason."""
        return self.fates.cuts(number)


def kept_texts(signals: Signals, decisions: Decisions, number: int) -> tuple[I64, list[str]]:
    """The rows of a stored block that stay, and their texts without the spans that steps took out."""
    rows = decisions.kept(number)
    if not len(rows):
        return rows, []
    texts = signals.block_texts(number, None if len(rows) == signals.rows(number) else rows.tolist())
    cuts = decisions.cuts(number)
    if len(cuts):
        spans = spans_of(cuts)
        texts = [without(text, spans.get(row, ())) for row, text in zip(rows.tolist(), texts, strict=True)]
    return rows, texts


def spans_of(cuts: npt.NDArray[Any]) -> dict[int, list[tuple[int, int]]]:
    """The spans to take out of each row's text, merged where they overlap."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for row, start, end in sorted(
        zip(*(cuts[name].tolist() for name in ("row", "start", "end")), strict=True)
    ):
        mine = spans.setdefault(row, [])
        if mine and start <= mine[-1][1]:
            mine[-1] = (mine[-1][0], max(end, mine[-1][1]))
        else:
            mine.append((start, end))
    return spans


def without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """A text without some spans, which are in order and apart."""
    pieces, at = [], 0
    for start, end in spans:
        pieces.append(text[at:start])
        at = end
    return "".join([*pieces, text[at:]])


def decide(recipe: Recipe, signals: Signals, folder: Path) -> Decisions:
    """Applies the recipe's steps to the stored columns; works in `folder`, which belongs to the decisions."""
    decisions = Decisions(signals, Fates(folder, signals.first), Earlier(recipe, len(signals)))
    counts = [_Count() for _ in recipe.steps]
    for first, end in _stretches(recipe.steps):
        _decide_stretch(recipe.steps, first, end, decisions, counts)
    decisions.funnel = [count.as_step(step.step) for step, count in zip(recipe.steps, counts, strict=True)]
    return decisions


@contextlib.contextmanager
def decided(recipe: Recipe, signals: Signals) -> Iterator[Decisions]:
    """Decisions that are looked at and forgotten."""
    with tempfile.TemporaryDirectory(prefix="ylink-decide-") as folder:
        yield decide(recipe, signals, Path(folder))


@dataclass
class _Count:
    """One step's line of the funnel, summed over blocks."""

    seen: int = 0
    changed: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def as_step(self, name: str) -> StepCount:
        kept = self.seen - self.dropped.total()
        return StepCount(
            step=name,
            seen=self.seen,
            kept=kept,
            dropped=dict(sorted(self.dropped.items())),
            changed=self.changed,
        )


def _stretches(steps: Sequence[Step]) -> Iterator[tuple[int, int]]:
    """Runs of steps `first … end-1` of which only the last may be global: each is one pass over blocks."""
    first = 0
    for number, step in enumerate(steps):
        if isinstance(step, GlobalStep):
            yield first, number + 1
            first = number + 1
    if first < len(steps):
        yield first, len(steps)


def _decide_stretch(
    steps: Sequence[Step], first: int, end: int, decisions: Decisions, counts: list[_Count]
) -> None:
    signals, fates = decisions.signals, decisions.fates
    last = steps[end - 1]
    spill = Spill(fates.folder, last.RECORD) if isinstance(last, GlobalStep) else None
    sources = Counter[str]()
    for number in range(len(signals.blocks)):
        table = table_of(signals, number)
        verdicts = fates.read(number)
        for place in range(first, end):
            step, count = steps[place], counts[place]
            verdicts.number = place
            alive = verdicts.alive
            count.seen += int(alive.sum())
            count.changed += step.changed(table)
            if spill is not None and step is last:
                assert isinstance(step, GlobalStep)
                rows = np.flatnonzero(alive)
                spill.add(step.collect(table, rows))
                names = table.columns["source"]
                sources.update(names[row] for row in rows.tolist())
            else:
                step.decide(table, verdicts)
                count.dropped.update(verdicts.reason[row] for row in np.flatnonzero(verdicts.step == place))
        fates.write(number, verdicts)
    if spill is not None:
        assert isinstance(last, GlobalStep)
        ruling = _Ruling(signals, fates.folder, decisions.earlier)
        for block in decisions.earlier if last.COMPARES else ():
            records = last.collect(replace(table_of(block.signals, block.number), earlier=True), block.kept)
            records["row"] = block.rows(records["row"] - block.signals.first[block.number])
            spill.add(records)
        last.resolve(spill, ruling)
        ruling.apply(decisions, end - 1, counts[end - 1])
        decisions.alarms += ruling.alarms(last.step, sources)


def table_of(signals: Signals, number: int) -> Table:
    """The table of a stored block."""

    def texts(rows: Sequence[int]) -> dict[int, str]:
        return dict(zip(rows, signals.block_texts(number, rows), strict=True))

    return Table(signals.columns(number), texts, signals.rows(number), int(signals.first[number]))


def write_decisions(path: Path, recipe: Recipe, decisions: Decisions) -> None:
    """One row a document: kept or not, the step, the rule, the value, the bound, the twin that stayed.

    One row group a stored block.  Beside it `cuts.parquet` has the spans that were taken out of texts, and
    `funnel.json` the funnel with its alarms.
    """
    signals = decisions.signals
    ids = IdFile(decisions.fates.folder)
    for number in range(len(signals.blocks)):
        ids.append(signals.columns(number)["id"])
    write_groups(path, DECISION_SCHEMA, _decision_groups(recipe, decisions, ids))
    write_groups(path.with_name("cuts.parquet"), CUT_SCHEMA, _cut_groups(recipe, decisions))
    about = {
        "steps": [step.model_dump(mode="json") for step in decisions.funnel],
        "alarms": [asdict(alarm) for alarm in decisions.alarms],
    }
    with disk(path):
        atomic_write(path.with_name("funnel.json"), json.dumps(about, indent=1))


def _decision_groups(recipe: Recipe, decisions: Decisions, ids: IdFile) -> Iterator[pa.Table]:
    steps = [step.step for step in recipe.steps]
    for number in range(len(decisions.signals.blocks)):
        verdicts = decisions.verdicts(number)
        by = [None if place == KEPT else steps[place] for place in verdicts.step.tolist()]
        pointing = np.flatnonzero(verdicts.other >= 0)
        others: list[str | None] = [None] * verdicts.count
        own = verdicts.other[pointing] < len(decisions.signals)
        for row, mark in zip(pointing[own].tolist(), ids.get(verdicts.other[pointing[own]]), strict=True):
            others[row] = mark
        for row in pointing[~own].tolist():
            others[row] = decisions.id_of(int(verdicts.other[row]))
        columns = (
            strings(decisions.signals.columns(number)["id"]),
            array(verdicts.step == KEPT),
            strings(by),
            strings([reason or None for reason in verdicts.reason]),
            numbers_or_null(verdicts.value),
            numbers_or_null(verdicts.threshold),
            strings(others),
        )
        yield pa.Table.from_arrays(list(columns), schema=DECISION_SCHEMA)


def _cut_groups(recipe: Recipe, decisions: Decisions) -> Iterator[pa.Table]:
    for number in range(len(decisions.signals.blocks)):
        cuts = decisions.cuts(number)
        if len(cuts):
            columns = (
                array(cuts["row"] + decisions.signals.first[number]),
                array(np.ascontiguousarray(cuts["start"])),
                array(np.ascontiguousarray(cuts["end"])),
                strings([recipe.steps[place].step for place in cuts["step"].tolist()]),
                strings([decisions.fates.reasons[code] for code in cuts["reason"].tolist()]),
            )
            yield pa.Table.from_arrays(list(columns), schema=CUT_SCHEMA)


class _Ruling:
    """Collects what a global step says and applies it block by block."""

    def __init__(self, signals: Signals, folder: Path, earlier: Earlier) -> None:
        self.signals = signals
        self.earlier = earlier
        self._folder = folder
        self._reasons: list[str] = []
        self._drops = Spill(folder, DROP)
        self._cuts = Spill(folder, CUT)
        self._dropped_of = Counter[str]()

    def spill(self, dtype: np.dtype[Any]) -> Spill:
        return Spill(self._folder, dtype)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            yield Path(folder)

    def drop(
        self,
        rows: I64,
        reason: str,
        *,
        value: npt.NDArray[Any] | float = np.nan,
        threshold: float = np.nan,
        other: I64 | int = -1,
    ) -> None:
        own = rows < len(self.signals)
        rows, value, other = rows[own], _of(value, own), _of(other, own)
        records = np.zeros(len(rows), DROP)
        records["key"] = position_key(rows, len(self.signals))
        records["row"], records["reason"] = rows, self._code(reason)
        records["value"], records["threshold"], records["other"] = value, threshold, other
        self._drops.add(records)

    def cut(
        self,
        rows: I64,
        starts: npt.NDArray[np.integer[Any]],
        ends: npt.NDArray[np.integer[Any]],
        reason: str,
    ) -> None:
        records = np.zeros(len(rows), CUT)
        records["key"] = position_key(rows, len(self.signals))
        records["row"], records["start"], records["end"] = rows, starts, ends
        records["reason"] = self._code(reason)
        self._cuts.add(records)

    def _code(self, reason: str) -> int:
        if reason not in self._reasons:
            self._reasons.append(reason)
        return self._reasons.index(reason)

    def apply(self, decisions: Decisions, step: int, count: _Count) -> None:
        """Writes the drops and the cuts into the fates."""
        for number, records in _by_block(self._drops, self.signals):
            self._apply_drops(decisions, number, step, records, count)
        for number, records in _by_block(self._cuts, self.signals):
            self._apply_cuts(decisions, number, step, records, count)

    def _apply_drops(
        self, decisions: Decisions, number: int, step: int, records: npt.NDArray[Any], count: _Count
    ) -> None:
        verdicts = decisions.fates.read(number)
        verdicts.number = step
        records = records[np.unique(records["row"], return_index=True)[1]]
        records = records[verdicts.alive[records["row"]]]
        for code in np.unique(records["reason"]).tolist():
            mine = records[records["reason"] == code]
            verdicts.drop(
                mine["row"],
                self._reasons[code],
                value=mine["value"],
                threshold=float(mine["threshold"][0]),
                other=mine["other"],
            )
            count.dropped[self._reasons[code]] += len(mine)
        decisions.fates.write(number, verdicts)
        names = decisions.signals.columns(number)["source"]
        self._dropped_of.update(names[row] for row in records["row"].tolist())

    def _apply_cuts(
        self, decisions: Decisions, number: int, step: int, records: npt.NDArray[Any], count: _Count
    ) -> None:
        verdicts = decisions.fates.read(number)
        records = records[verdicts.alive[records["row"]]]
        if not len(records):
            return
        decisions.fates.add_cuts(number, records, step, self._reasons)
        spans = spans_of(decisions.cuts(number))
        rows = np.unique(records["row"])
        texts = decisions.signals.block_texts(number, rows.tolist())
        empty = [
            row
            for row, text in zip(rows.tolist(), texts, strict=True)
            if not without(text, spans[row]).strip()
        ]
        count.changed += len(rows) - len(empty)
        if empty:
            verdicts.number = step
            verdicts.drop(np.asarray(empty, np.int64), NOTHING_LEFT)
            count.dropped[NOTHING_LEFT] += len(empty)
            decisions.fates.write(number, verdicts)

    def alarms(self, step: str, seen: Counter[str]) -> list[Alarm]:
        """Sources of which nearly everything was dropped."""
        return [
            Alarm(step, source, count, self._dropped_of[source])
            for source, count in sorted(seen.items())
            if count >= ALARM_LEAST and self._dropped_of[source] >= ALARM_SHARE * count
        ]


def _of(values: Any, chosen: npt.NDArray[np.bool_]) -> Any:
    return values[chosen] if isinstance(values, np.ndarray) else values


def _by_block(spill: Spill, signals: Signals) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Records in order of blocks; their rows become rows of the block.

    Keys follow rows and equal keys stay together, so that a block is at most in two parts.
    """
    for records in spill.parts("row"):
        blocks = np.searchsorted(signals.first, records["row"], side="right") - 1
        for number in np.unique(blocks).tolist():
            mine = records[blocks == number]
            mine["row"] -= signals.first[number]
            yield number, mine
