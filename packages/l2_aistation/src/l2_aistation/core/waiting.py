"""The jobs that wait, in lanes of like ones, kept up to date with every change.

All jobs of a lane would be treated alike by every policy but for their time of submission: whoever
finds no place for the first of a lane need not look at the rest.  A cycle therefore costs as much
as there are lanes, however many jobs wait.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import log2
from typing import Any

from .demand import Demand
from .job import Job
from .refusal import Refusal

Key = tuple[Any, ...]
Entry = tuple[float, str, Job]

LEVEL_S = 60.0
"""Run time that counts as none; each doubling after it is a level of its own."""

_DIGITS = re.compile(r"[0-9]+")


def level_of(ran_s: float) -> int:
    """The level of a run time: 0 up to a minute, then one more with each doubling."""
    return 0 if ran_s <= LEVEL_S else 1 + int(log2(ran_s / LEVEL_S))


def stem(name: str) -> str:
    """A job's name without its numbers: runs of one program share it."""
    return _DIGITS.sub("#", name)[:40] if name else ""


@dataclass(slots=True, eq=False)
class Lane:
    """Like jobs in order of submission, and why the first of them does not start."""

    key: Key
    demand: Demand
    entries: list[Entry] = field(default_factory=list)
    refusal: Refusal | None = None
    untold: list[Job] = field(default_factory=list)
    """Jobs that came since the refusal was last told."""
    plain: bool = False
    """Whether the demand, the policies and nothing else decide about its jobs."""

    @property
    def first(self) -> Job:
        """The one that waits longest."""
        return self.entries[0][2]

    def add(self, job: Job) -> None:
        """Takes a job in, at its place."""
        insort(self.entries, (job.submitted_at, job.id, job))
        self.untold.append(job)

    def drop(self, job: Job) -> None:
        """Takes a job out."""
        place = bisect_left(self.entries, (job.submitted_at, job.id))
        del self.entries[place]


class Waiting:
    """All lanes.  `refresh` is called for each job that may have begun or ceased to wait."""

    def __init__(self) -> None:
        self.lanes: dict[Key, Lane] = {}
        self.alike: dict[Demand, dict[Key, Lane]] = {}
        """The same by demand."""
        self.of: dict[str, Lane] = {}
        self.count = 0

    def refresh(self, job: Job, *, gone: bool = False) -> None:
        """Puts a job where it belongs."""
        lane = self.of.pop(job.id, None)
        if lane is not None:
            self._leave(lane, job)
        if job.waits and not gone:
            key = lane_key(job)
            lane = self.lanes.get(key)
            if lane is None:
                lane = self.lanes[key] = Lane(key, job.demand, plain=_plain(job))
                self.alike.setdefault(job.demand, {})[key] = lane
            lane.add(job)
            self.of[job.id] = lane
            self.count += 1

    def _leave(self, lane: Lane, job: Job) -> None:
        lane.drop(job)
        self.count -= 1
        if not lane.entries:
            del self.lanes[lane.key]
            del self.alike[lane.demand][lane.key]

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Job]:
        for lane in list(self.lanes.values()):
            for entry in list(lane.entries):
                yield entry[2]

    def timed(self) -> Iterator[Job]:
        """Those that are not to start before some time; each has a lane of its own."""
        return (lane.first for lane in self.lanes.values() if lane.first.not_before is not None)

    def refusal(self, name: str) -> Refusal | None:
        """Why a waiting job does not start; None where it was not looked at yet, or does not wait."""
        lane = self.of.get(name)
        return None if lane is None else lane.refusal

    def same_as(self, jobs: Iterable[Job]) -> bool:
        """Whether the lanes hold exactly the waiting ones of some jobs, each where it belongs."""
        fresh = Waiting()
        for job in jobs:
            fresh.refresh(job)
        mine = {key: [entry[:2] for entry in lane.entries] for key, lane in self.lanes.items()}
        return mine == {key: [entry[:2] for entry in lane.entries] for key, lane in fresh.lanes.items()}


def _plain(job: Job) -> bool:
    others = job.depends_on or job.reservation or job.array or job.labels
    timed = job.not_before is not None or job.promised_at is not None or job.most_running is not None
    return not (others or timed) and job.demand.alone


def lane_key(job: Job) -> Key:
    """What makes jobs alike: all that a policy, a limit or an estimate may look at."""
    alone = job.id if job.depends_on or job.not_before is not None or job.promised_at is not None else ""
    return (
        job.queue,
        job.tenant,
        job.owner,
        job.priority,
        job.demand,
        job.time_s,
        job.expected_s,
        job.preemptible,
        job.reservation,
        job.array if job.most_running is not None else None,
        level_of(job.ran_s),
        stem(job.name),
        tuple(sorted(job.labels.items())),
        alone,
    )
