"""Free capacity over future time: when a gang can start, and what a long job has to leave alone.

What runs ends at its planned time: its limit, or what was learned of its like.  A promise holds its
place from the promised time on.  So a job may start on a place now if it ends before that place is
promised to somebody, and all the rest of the pool is open to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from . import windows
from .demand import Demand
from .job import NEVER, Job
from .placement import place
from .pool import Bools, Placement, Pool
from .promise import Promise
from .states import JobState
from .world import World

USUAL = 0.8
"""The quantile of like jobs' run times by which the end of what runs is planned."""

CAUTIOUS = 0.9
"""The quantile by which a job has to end to use a gap, where eviction stands behind the estimate."""

UNKNOWN_S = 3600.0
"""Planned run time of a job that may be evicted and of whose like nothing is known."""

STOPPING_S = 30.0
"""How long a job that is being ended still holds its place, at most."""


def planned_end(world: World, job: Job, now: float) -> float:
    """When a job that holds nodes is planned to give them back; infinite where nobody can tell.

    A plan stands until it is overdue.  Where the job may be evicted, an estimate is good enough to
    promise on; else only its limit is.
    """
    if job.planned_until is not None and job.planned_until > now:
        return job.planned_until
    end = _end_by_kind(world, job, now)
    return end if end > now else now + STOPPING_S  # it is over its time: it leaves any moment


def _end_by_kind(world: World, job: Job, now: float) -> float:
    if job.state is JobState.STOPPING:
        return now
    limit = job.limit_at(now)
    if not job.preemptible:
        return limit
    learned = world.run_times.end_by(job, USUAL, now)
    return min(limit, now + UNKNOWN_S if learned == NEVER else learned)


def gap_end(world: World, job: Job, now: float) -> float:
    """By when a job that starts now is out of a gap: by its limit, or, if it may be evicted, its estimate."""
    limit = job.limit_at(now)
    if not job.preemptible:
        return limit
    return min(limit, world.run_times.end_by(job, CAUTIOUS, now))


def lasts(world: World, job: Job) -> float:
    """Seconds that a waiting job is planned to hold its place: its limit, where it must not be evicted."""
    if not job.preemptible:
        return NEVER if job.time_s is None else job.time_s
    total = world.run_times.expected(job, USUAL, job.ran_s)
    return UNKNOWN_S if total is None else max(total - job.ran_s, 0.0)


@dataclass(frozen=True, slots=True)
class Start:
    """When and where a gang can start at the earliest."""

    at: float
    placement: Placement


@dataclass(frozen=True, slots=True)
class Wish:
    """Who wants to start, with which demand, for how long, on which sets of nodes (None: on any)."""

    job: Job
    demand: Demand
    lasts_s: float
    masks: Sequence[Bools] | None = None


class Timeline:
    """The future of a world as planned at one moment.  It books nothing.

    Promises of jobs in `ignored` are left out.  `broken` are those that cannot be kept as planned:
    a node is gone, or somebody holds the place for longer.  With `keep` new plans of ends are written
    down, as a cycle does; who only asks leaves no trace.
    """

    def __init__(
        self, world: World, now: float, ignored: Collection[str] = (), *, keep: bool = False
    ) -> None:
        self.world = world
        self.now = now
        self.keep = keep
        self.ledger = world.ledger
        self.version = world.ledger.version
        self.promises = [item for item in live_promises(world) if item.job not in ignored]
        late = [(job, planned_end(world, job, now)) for job in world.ledger.overdue(now)]
        if keep:
            for job, end in late:
                self._plan(job, end)
        self.ends = self.ledger.ends[: self.ledger.size].copy()
        for job, end in late:
            self.ends[self.ledger.span(job)] = end
        self._leave_for_promises()
        self.broken: list[Promise] = []
        self.rooms: dict[int, Pool] = {}
        self.futures = self._futures()

    def _plan(self, job: Job, end: float) -> None:
        job.planned_until = end
        self.ledger.plan(job, end)

    def _leave_for_promises(self) -> None:
        """Who may be evicted leaves a promised place in time."""
        size = len(self.ends)
        nodes, bits = self.ledger.columns["nodes"][:size], self.ledger.bits[:size]
        for promise in self.promises:
            taken = promise.by_node(len(self.world.pool))
            late = ((taken[nodes] & bits) != 0) & (self.ends > promise.at)
            for job in self.ledger.owners(late) if late.any() else ():
                if job.preemptible:
                    self.ends[self.ledger.span(job)] = max(promise.at, self.now)

    def _futures(self) -> list[Pool]:
        """For each promise, the pool as it will be when all up to it have been kept."""
        futures: list[Pool] = []
        if not self.promises:
            self.starts: list[float] = []
            return futures
        pool, given = self.world.pool.copy(), -NEVER
        kept: list[Promise] = []
        for promise in self.promises:
            at = max(promise.at, self.now)
            self._give(pool, given, at)
            for item in kept:
                if given < item.until <= at:
                    pool.give(item.placement)
            given = at
            if _take(pool, promise):
                kept.append(promise)
                futures.append(pool.copy())
            else:
                self.broken.append(promise)
        self.promises = kept
        self.starts = [item.at for item in kept]
        return futures

    def _give(self, pool: Pool, after: float, until: float) -> None:
        """Gives back what ends after a moment and up to another."""
        chosen = np.flatnonzero((self.ends > after) & (self.ends <= until))
        if len(chosen):
            pool.give(self.ledger.rows(chosen))

    # -- what a long job leaves alone ----------------------------------------------------------------

    def kept_before(self, end: float) -> int:
        """How many promises a job has to leave room for that starts now and ends by `end`."""
        return bisect_left(self.starts, end)

    def room(self, kept: int) -> Pool | None:
        """What is free now and stays free beside the first `kept` promises; None for the pool itself."""
        if not kept:
            return None
        room = self.rooms.get(kept)
        if room is None:
            room = self.world.pool.copy()
            for future in self.futures[:kept]:
                room.meet(future)
            self.rooms[kept] = room
        return room

    def book(self, job: Job, placement: Placement, end: float) -> bool:
        """Takes note of a booking made now that ends by `end`; False where it breaks a promise."""
        kept = self.kept_before(end)
        self._shrink(placement, kept)
        planned = planned_end(self.world, job, self.now)
        if self.keep:
            self._plan(job, planned)
        span = self.ledger.span(job)
        if span.start != len(self.ends) or self.version + 1 != self.ledger.version:
            return False
        self.version = self.ledger.version
        self.ends = np.concatenate([self.ends, np.full(len(placement), planned)])
        try:
            for future in self.futures[:kept]:
                future.take(placement)
        except ValueError:
            return False
        return True

    def _shrink(self, placement: Placement, kept: int) -> None:
        """Takes a booking out of the rooms; those that look further than the job stays are made anew."""
        for number, room in list(self.rooms.items()):
            try:
                if number > kept:
                    raise ValueError("the future beyond has that place free again")
                room.take(placement)
            except ValueError:
                del self.rooms[number]

    # -- the earliest start ----------------------------------------------------------------------------

    def at(self, moment: float, lasts_s: float = NEVER) -> Pool:
        """The room for a gang that starts at a moment and stays so long: promises are kept."""
        pool = self.world.pool.copy()
        self._give(pool, -NEVER, moment)
        for promise in self.promises:
            if promise.at <= moment < promise.until:
                pool.take(promise.placement)
        for promise, future in zip(self.promises, self.futures, strict=True):
            if moment < promise.at < moment + lasts_s:
                pool.meet(future)
        return pool

    def earliest(self, wish: Wish) -> Start | None:
        """The first time from which the gang fits for as long as it lasts; None where no end is known."""
        for begin, limit in self._segments(wish.lasts_s):
            found = self._within(wish, begin, limit)
            if found is not None:
                return found
        return None

    def _segments(self, lasts_s: float) -> Iterable[tuple[float, float]]:
        """Spans of start times during which the same windows and promises apply."""
        marks = {self.now}
        spans = [(window.start, window.until) for window in self.world.windows.values()]
        spans += [(promise.at, promise.until) for promise in self.promises]
        for start, until in spans:
            marks.update(mark for mark in (start - lasts_s, start, until) if self.now < mark < NEVER)
        ordered = sorted(marks)
        return zip(ordered, [*ordered[1:], NEVER], strict=True)

    def _within(self, wish: Wish, begin: float, limit: float) -> Start | None:
        """The first fitting start of a span.

        What fits at one time inside of it fits at all later ones; its begin is an edge, and stands alone.
        """
        at_once = self._fits(wish, begin)
        if at_once is not None:
            return at_once
        times = np.unique(self.ends[(self.ends > begin) & (self.ends < limit)]).tolist()
        best: Start | None = None
        low, high = 0, len(times) - 1
        probe = high  # the end of the span first: it tells whether to look for more
        while low <= high:
            found = self._fits(wish, times[probe])
            if found is not None:
                best, high = found, probe - 1
            elif best is None:
                return None
            else:
                low = probe + 1
            probe = (low + high) // 2
        return best

    def _fits(self, wish: Wish, moment: float) -> Start | None:
        pool = self.at(moment, wish.lasts_s)
        usable = nodes_for(self.world, wish.job, moment, moment + wish.lasts_s, pool)
        demand, masks = wish.demand, wish.masks
        for mask in masks if masks is not None else (None,):
            found = place(pool, demand, usable if mask is None else usable & mask)
            if found is not None:
                return Start(moment, found)
        return None


def _take(pool: Pool, promise: Promise) -> bool:
    """Takes a promised place out of a pool; False, and nothing taken, where it is not all there."""
    nodes = promise.placement.nodes
    if not pool.usable[nodes].all():
        return False
    try:
        pool.take(promise.placement)
    except ValueError:
        return False
    if (pool.cpu_free[nodes] < 0).any() or (pool.memory_free[nodes] < 0).any():
        pool.give(promise.placement)
        return False
    return True


def nodes_for(world: World, job: Job, start: float, end: float, pool: Pool) -> Bools:
    """The nodes that a run of the job from `start` to `end` may use, windows considered."""
    usable = pool.usable
    if world.windows:
        closed = windows.shut(world.windows.values(), pool, job, start, end)
        if closed is not None:
            usable = usable & ~closed
    if job.reservation is not None:
        mine = windows.inside(world.windows.values(), pool, job, start)
        if mine is not None:
            usable = usable & mine
    return usable


def live_promises(world: World) -> list[Promise]:
    """Promises of jobs that still wait, the earliest first."""
    kept = [item for name, item in world.promises.items() if name in world.jobs and world.jobs[name].waits]
    return sorted(kept, key=lambda item: (item.at, item.job))
