"""What runs, rank by rank in arrays, with the planned end of each: the past that a timeline starts from.

Kept up to date with every booking, so that a look at the future costs a few array operations however
many jobs run.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .job import NEVER, Job
from .pool import Bools, Ints, Placement

COLUMNS = ("nodes", "groups", "cpu_milli", "memory_bytes", "share_milli", "share_bytes", "owner")
START = 256
NOBODY = -1
UNPLANNED = -1.0
"""The planned end of a job that nobody has planned yet."""


class Ledger:
    """Rows of all ranks that are held.  A row of nobody is empty and holds nothing."""

    def __init__(self) -> None:
        self.size = 0
        self.empty = 0
        self.columns: dict[str, Ints] = {name: np.zeros(START, dtype=np.int64) for name in COLUMNS}
        self.bits = np.zeros(START, dtype=np.uint64)
        self.ends = np.full(START, NEVER)
        self.jobs: dict[int, Job] = {}
        self.spans: dict[str, tuple[int, int, int]] = {}
        self.numbers = 0
        self.version = 0
        """Counts what comes and goes."""

    def add(self, job: Job, placement: Placement) -> None:
        """Takes a job in; its end is planned when somebody looks."""
        begin, end = self.size, self.size + len(placement)
        while end > len(self.bits):
            self._grow()
        number = self.numbers
        self.numbers += 1
        self.version += 1
        for name in ("nodes", "groups", "cpu_milli", "memory_bytes"):
            self.columns[name][begin:end] = getattr(placement, name)
        for name in ("share_milli", "share_bytes"):
            share = getattr(placement, name)
            self.columns[name][begin:end] = 0 if share is None else share
        self.columns["owner"][begin:end] = number
        self.bits[begin:end] = placement.bits
        self.ends[begin:end] = UNPLANNED
        self.size = end
        self.jobs[number] = job
        self.spans[job.id] = begin, end, number

    def drop(self, job: Job) -> None:
        """Takes a job out."""
        begin, end, number = self.spans.pop(job.id)
        self.version += 1
        del self.jobs[number]
        self.columns["owner"][begin:end] = NOBODY
        self.ends[begin:end] = NEVER
        self.bits[begin:end] = 0
        self.empty += end - begin
        if end == self.size:
            self.size, self.empty = begin, self.empty - (end - begin)
        elif self.empty > START and 2 * self.empty > self.size:
            self._compact()

    def plan(self, job: Job, end: float) -> None:
        """Notes by when a job is planned to have left."""
        begin, until, _ = self.spans[job.id]
        self.ends[begin:until] = end

    def on(self, nodes: Bools) -> list[Job]:
        """The jobs that hold something on some nodes."""
        owner = self.columns["owner"][: self.size]
        there = nodes[self.columns["nodes"][: self.size]] & (owner != NOBODY)
        return [self.jobs[number] for number in np.unique(owner[there]).tolist()]

    def overdue(self, now: float) -> list[Job]:
        """Jobs without a planned end, or beyond it."""
        late = np.flatnonzero(self.ends[: self.size] <= now)
        return [self.jobs[number] for number in np.unique(self.columns["owner"][late]).tolist()]

    def rows(self, chosen: Bools | Ints) -> Placement:
        """Some rows as one placement."""
        columns = self.columns
        share = columns["share_milli"][chosen]
        return Placement(
            columns["nodes"][chosen],
            self.bits[chosen],
            columns["groups"][chosen],
            columns["cpu_milli"][chosen],
            columns["memory_bytes"][chosen],
            share if share.any() else None,
            columns["share_bytes"][chosen] if share.any() else None,
        )

    def owners(self, chosen: Bools) -> list[Job]:
        """The jobs of some rows, in the order of their bookings."""
        return [
            self.jobs[number] for number in np.unique(self.columns["owner"][: len(chosen)][chosen]).tolist()
        ]

    def span(self, job: Job) -> slice:
        """The rows of a job."""
        begin, end, _ = self.spans[job.id]
        return slice(begin, end)

    def same_as(self, jobs: Iterable[Job]) -> bool:
        """Whether it holds exactly what some jobs hold."""
        held = {job.id: job.placement for job in jobs if job.placement is not None}
        if held.keys() != self.spans.keys():
            return False
        return all(
            np.array_equal(self.columns["nodes"][begin:end], held[name].nodes)
            and np.array_equal(self.bits[begin:end], held[name].bits)
            for name, (begin, end, _) in self.spans.items()
        )

    def _grow(self) -> None:
        for name, column in self.columns.items():
            self.columns[name] = np.concatenate([column, np.zeros_like(column)])
        self.bits = np.concatenate([self.bits, np.zeros_like(self.bits)])
        self.ends = np.concatenate([self.ends, np.full(len(self.ends), NEVER)])

    def _compact(self) -> None:
        kept = np.flatnonzero(self.columns["owner"][: self.size] != NOBODY)
        count = len(kept)
        for column in self.columns.values():
            column[:count] = column[kept]
        self.bits[:count] = self.bits[kept]
        self.ends[:count] = self.ends[kept]
        self.ends[count:] = NEVER
        self.size, self.empty = count, 0
        owner = self.columns["owner"][:count]
        firsts = np.flatnonzero(np.diff(owner, prepend=NOBODY))
        for begin, end in zip(firsts.tolist(), [*firsts[1:].tolist(), count], strict=True):
            number = int(owner[begin])
            self.spans[self.jobs[number].id] = begin, end, number
