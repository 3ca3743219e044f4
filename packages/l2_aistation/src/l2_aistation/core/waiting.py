"""The jobs that wait, in lanes of like ones, kept up to date with every change.

All jobs of a lane would be treated alike by every policy but for their time of submission: whoever
finds no place for the first of a lane need not look at the rest.  Lanes that only times, users and
names tell apart are of one kind: where one of them lacks room, all do.  A cycle therefore costs as
much as there are kinds, however many jobs wait.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import log2
from typing import Any

from .demand import Demand
from .job import Job
from .refusal import Refusal

Key = tuple[Any, ...]
Entry = tuple[float, str, Job]
Told = tuple[Job, Refusal]

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
    kind: Kind
    entries: list[Entry] = field(default_factory=list)
    untold: list[Job] = field(default_factory=list)
    """Jobs that came since the refusal was last told."""
    plain: bool = False
    """Whether the demand, the policies and nothing else decide about its jobs."""
    own: Refusal | None = None
    """Its own refusal; it counts while the kind has not been refused as a whole since."""
    turn: int = 0

    @property
    def refusal(self) -> Refusal | None:
        """Why its jobs do not start; None where they were not looked at yet."""
        return self.own if self.turn == self.kind.turn else self.kind.refusal

    @property
    def first(self) -> Job:
        """The one that waits longest."""
        return self.entries[0][2]

    def head(self) -> Lane | None:
        """Itself, while somebody waits in it."""
        return self if self.entries else None

    def add(self, job: Job) -> None:
        """Takes a job in, at its place."""
        insort(self.entries, (job.submitted_at, job.id, job))
        self.untold.append(job)
        self.kind.news[self] = None
        if self.entries[0][2] is job:
            self.kind.note_first(self)

    def drop(self, job: Job) -> None:
        """Takes a job out."""
        place = bisect_left(self.entries, (job.submitted_at, job.id))
        del self.entries[place]
        if not place and self.entries:
            self.kind.note_first(self)

    def refuse(self, refusal: Refusal) -> list[Told]:
        """Notes why its jobs do not start, and returns those that are to be told."""
        told = self._told(refusal)
        self.own, self.turn = refusal, self.kind.turn
        self.kind.odd[self] = None
        return told

    def _told(self, refusal: Refusal) -> list[Told]:
        """Who is to be told: all where the limit is another one, else those that came since."""
        before, told = self.refusal, []
        if before is None or before.limit != refusal.limit:
            told = [(job, refusal) for _, _, job in self.entries]
        elif self.untold:
            told = [(job, refusal) for job in self.untold if job.waits]
        self.untold.clear()
        return told


class Kind:
    """Lanes that are ranked alike and that want of room refuses alike: times and names tell them apart.

    Refusing all of them at once costs no more than refusing one; so does finding the first of them.
    """

    __slots__ = (
        "_firsts",
        "_serial",
        "demand",
        "key",
        "lanes",
        "news",
        "odd",
        "plain",
        "queue",
        "refusal",
        "turn",
    )

    def __init__(self, key: Key, queue: str, demand: Demand, *, plain: bool) -> None:
        self.key = key
        self.queue = queue
        self.demand = demand
        self.plain = plain
        self.lanes: dict[Key, Lane] = {}
        self.refusal: Refusal | None = None
        self.turn = 0
        self.odd: dict[Lane, None] = {}
        """Those with a refusal of their own, or none yet."""
        self.news: dict[Lane, None] = {}
        """Those with jobs that were not told yet."""
        self._firsts: list[tuple[float, str, int, Lane]] = []
        self._serial = 0

    def join(self, lane: Lane) -> None:
        """Takes a new lane in."""
        self.lanes[lane.key] = lane
        self.odd[lane] = None
        lane.turn = self.turn

    def leave(self, lane: Lane) -> None:
        """Takes an empty lane out."""
        del self.lanes[lane.key]
        self.odd.pop(lane, None)
        self.news.pop(lane, None)

    def note_first(self, lane: Lane) -> None:
        """Notes that a lane begins with another job than before."""
        if len(self._firsts) > 2 * len(self.lanes) + 8:
            self._firsts = [item for item in self._firsts if self._holds(item)]
            heapify(self._firsts)
        submitted, name, _ = lane.entries[0]
        self._serial += 1
        heappush(self._firsts, (submitted, name, self._serial, lane))

    @staticmethod
    def _holds(item: tuple[float, str, int, Lane]) -> bool:
        entries = item[3].entries
        return bool(entries) and entries[0][1] == item[1]

    def head(self) -> Lane | None:
        """The lane with the job that waits longest; None where nobody waits."""
        firsts = self._firsts
        while firsts:
            _, name, _, lane = firsts[0]
            entries = lane.entries
            if entries and entries[0][1] == name:
                return lane
            heappop(firsts)
        return None

    def refuse(self, refusal: Refusal) -> list[Told]:
        """Notes why none of its jobs starts, and returns those that are to be told."""
        before = self.refusal
        same = before is not None and before.limit == refusal.limit
        if same and not self.odd and not self.news:
            self.refusal = refusal
            return []
        lanes = dict.fromkeys((*self.odd, *self.news)) if same else dict.fromkeys(self.lanes.values())
        told = [item for lane in lanes for item in lane._told(refusal)]
        self.refusal = refusal
        self.turn += 1
        self.odd.clear()
        self.news.clear()
        return told


class Waiting:
    """All lanes.  `refresh` is called for each job that may have begun or ceased to wait."""

    def __init__(self) -> None:
        self.lanes: dict[Key, Lane] = {}
        self.kinds: dict[Key, Kind] = {}
        self.alike: dict[Demand, dict[Key, Kind]] = {}
        """The kinds by demand."""
        self.of: dict[str, Lane] = {}
        self.count = 0

    def refresh(self, job: Job, *, gone: bool = False) -> None:
        """Puts a job where it belongs."""
        lane = self.of.pop(job.id, None)
        if lane is not None:
            self._leave(lane, job)
        if job.waits and not gone:
            key = lane_key(job)
            lane = self.lanes.get(key) or self._new(key, job)
            lane.add(job)
            self.of[job.id] = lane
            self.count += 1

    def _new(self, key: Key, job: Job) -> Lane:
        plain = _plain(job)
        name = _kind_key(key, job, plain=plain)
        kind = self.kinds.get(name)
        if kind is None:
            kind = self.kinds[name] = Kind(name, job.queue, job.demand, plain=plain)
            self.alike.setdefault(job.demand, {})[name] = kind
        lane = self.lanes[key] = Lane(key, job.demand, kind, plain=plain)
        kind.join(lane)
        return lane

    def _leave(self, lane: Lane, job: Job) -> None:
        lane.drop(job)
        self.count -= 1
        if lane.entries:
            return
        kind = lane.kind
        del self.lanes[lane.key]
        kind.leave(lane)
        if not kind.lanes:
            del self.kinds[kind.key]
            del self.alike[kind.demand][kind.key]

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Job]:
        for lane in list(self.lanes.values()):
            for entry in list(lane.entries):
                yield entry[2]

    def timed(self) -> Iterator[Job]:
        """Those that are not to start before some time; each has a kind of its own."""
        heads = (kind.head() for kind in self.kinds.values() if not kind.plain)
        return (lane.first for lane in heads if lane is not None and lane.first.not_before is not None)

    def refusal(self, name: str) -> Refusal | None:
        """Why a waiting job does not start; None where it was not looked at yet, or does not wait."""
        lane = self.of.get(name)
        return None if lane is None else lane.refusal

    def same_as(self, jobs: Iterable[Job]) -> bool:
        """Whether the lanes hold exactly the waiting ones of some jobs, each where it belongs."""
        fresh = Waiting()
        for job in jobs:
            fresh.refresh(job)
        return self._shape() == fresh._shape()

    def _shape(self) -> tuple[Any, ...]:
        lanes = {key: [entry[:2] for entry in lane.entries] for key, lane in self.lanes.items()}
        kinds = {name: (set(kind.lanes), kind.head()) for name, kind in self.kinds.items()}
        heads = {name: (keys, head and head.key) for name, (keys, head) in kinds.items()}
        return lanes, heads, {demand: set(alike) for demand, alike in self.alike.items() if alike}


def _plain(job: Job) -> bool:
    others = job.depends_on or job.reservation or job.array or job.labels
    timed = job.not_before is not None or job.promised_at is not None or job.most_running is not None
    return not (others or timed) and job.demand.alone


def _kind_key(key: Key, job: Job, *, plain: bool) -> Key:
    """Plain jobs that have hardly run share a kind; any other lane is one of its own."""
    if plain and level_of(job.ran_s) == 0:
        return job.queue, job.tenant, job.priority, job.demand
    return key


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
        job.array if job.most_running is not None else job.array is not None,
        level_of(job.ran_s),
        stem(job.name),
        tuple(sorted(job.labels.items())),
        alone,
    )
