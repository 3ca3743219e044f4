"""How long a job will run, learned from those that ended; no oracle.

Run times are counted in logarithmic bins, per class of like jobs (who, which program, which size),
for several classes from the narrowest to all jobs.  A question is answered by the narrowest class
that has seen enough, given how long the job has run already.  Old evidence fades by halving.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .job import NEVER, Job
from .waiting import stem

PER_OCTAVE = 4
BINS = 26 * PER_OCTAVE
"""From one second to two years."""

ENOUGH = 12.0
"""Ended jobs that make a class speak for itself."""

FADES_AFTER = 4_000.0
"""Ended jobs of a class after which all its counts are halved."""

MOST_LESSONS = 100_000
"""Lessons that are kept for whoever writes them down."""

EDGES: NDArray[np.float64] = 2.0 ** (np.arange(1, BINS + 1) / PER_OCTAVE)
"""Upper ends of the bins, seconds."""

Class = tuple[Any, ...]
Counts = NDArray[np.float64]


def bin_of(seconds: float) -> int:
    """The bin of a run time."""
    return min(max(int(log2(max(seconds, 1.0)) * PER_OCTAVE), 0), BINS - 1)


def classes(job: Job) -> tuple[Class, ...]:
    """The classes of a job, the narrowest first."""
    size = job.demand.accelerators or job.demand.cpu_milli
    name = stem(job.name)
    found: list[Class] = []
    if name:
        found += [("program", job.tenant, job.owner, name, size), ("program", job.tenant, job.owner, name)]
    if job.owner:
        found += [("owner", job.tenant, job.owner, size), ("owner", job.tenant, job.owner)]
    return (*found, ("queue", job.tenant, job.queue, size), ("size", size), ("all",))


@dataclass
class RunTimes:
    """What ended jobs teach.  `version` grows with each lesson, so that answers may be kept."""

    counts: dict[Class, Counts] = field(default_factory=dict)
    version: int = 0
    lessons: list[tuple[tuple[Class, ...], int]] = field(default_factory=list)
    """What was learned since somebody last cleared it: classes and bin."""

    def learn(self, job: Job, seconds: float) -> None:
        """Counts a job that ran for so long, all attempts together, and ended by itself."""
        place = bin_of(seconds)
        names = classes(job)
        self.lessons.append((names, place))
        del self.lessons[:-MOST_LESSONS]
        self.count(names, place)

    def count(self, names: Iterable[Class], place: int) -> None:
        """Adds one to a bin of some classes."""
        for name in names:
            counts = self.counts.get(name)
            if counts is None:
                counts = self.counts[name] = np.zeros(BINS)
            counts[place] += 1
            if counts.sum() > FADES_AFTER:
                counts *= 0.5
        self.version += 1

    def distribution(self, job: Job, ran_s: float = 0.0) -> Counts | None:
        """Counts of like jobs that ran longer than `ran_s`; None where too few did."""
        start = bin_of(ran_s) if ran_s > 1 else 0
        for name in classes(job):
            counts = self.counts.get(name)
            if counts is not None and float(counts[start:].sum()) >= ENOUGH:
                return counts
        return None

    def quantile(self, job: Job, share: float, ran_s: float = 0.0) -> float | None:
        """Total seconds that `share` of like jobs do not exceed, among those that ran for `ran_s`.

        None where too few like jobs have ended.
        """
        counts = self.distribution(job, ran_s)
        if counts is None:
            return None
        start = bin_of(ran_s) if ran_s > 1 else 0
        sums = np.cumsum(counts[start:])
        place = int(np.searchsorted(sums, share * sums[-1]))
        return max(float(EDGES[min(start + place, BINS - 1)]), ran_s)

    def expected(self, job: Job, share: float, ran_s: float = 0.0) -> float | None:
        """The quantile, else the user's hint, else the limit; None where nothing is known."""
        learned = self.quantile(job, share, ran_s)
        hint = job.expected_s if job.expected_s is not None and job.expected_s > ran_s else None
        known = learned if learned is not None else hint
        if job.time_s is not None:
            known = job.time_s if known is None else min(known, job.time_s)
        return known

    def end_by(self, job: Job, share: float, now: float) -> float:
        """When `share` of like jobs would have ended, started now if the job does not run; or infinite."""
        ran = job.attained_s(now)
        total = self.expected(job, share, ran)
        if total is None:
            return NEVER
        return now + max(total - ran, 0.0)

    def as_record(self) -> list[list[Any]]:
        """JSON: each class with its counts by bin."""
        return [
            [list(name), {int(place): float(counts[place]) for place in np.flatnonzero(counts)}]
            for name, counts in self.counts.items()
        ]

    @classmethod
    def from_record(cls, record: Iterable[Sequence[Any]]) -> RunTimes:
        """The inverse of `as_record`."""
        made = cls()
        for name, bins in record:
            counts = made.counts[tuple(name)] = np.zeros(BINS)
            for place, count in bins.items():
                counts[int(place)] = count
        return made
