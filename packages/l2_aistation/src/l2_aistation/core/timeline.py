"""Free capacity over future time: when a gang can start, and what a long job has to leave alone.

What runs ends at its planned time: its limit, or what was learned of its like.  A promise holds its
place from the promised time on.  So a job may start on a place now if it ends before that place is
promised to somebody, and all the rest of the pool is open to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from . import windows
from .demand import Demand
from .job import NEVER, Job
from .placement import place
from .pool import Bools, Placement, Pool, merged
from .promise import Promise
from .states import JobState
from .world import World

USUAL = 0.5
"""The quantile of like jobs' run times by which the end of what runs is planned."""

CAUTIOUS = 0.9
"""The quantile by which a job has to end to use a gap, where eviction stands behind the estimate."""

UNKNOWN_S = 3600.0
"""Planned run time of a job that may be evicted and of whose like nothing is known."""

STOPPING_S = 30.0
"""How long a job that is being ended still holds its place, at most."""


def planned_end(world: World, job: Job, now: float, share: float = USUAL) -> float:
    """When a job that holds nodes is planned to give them back; infinite where nobody can tell.

    Where it may be evicted, an estimate is good enough to promise on; else only its limit is.
    """
    if job.state is JobState.STOPPING:
        return now + STOPPING_S
    limit = job.limit_at(now)
    if not job.preemptible:
        return max(limit, now)
    if job.planned_until is not None and job.planned_until > now:
        return min(job.planned_until, limit)
    learned = world.run_times.end_by(job, share, now)
    return max(min(limit, now + UNKNOWN_S if learned == NEVER else learned), now)


def gap_end(world: World, job: Job, now: float) -> float:
    """By when a job that starts now is out of a gap: by its limit, or, if it may be evicted, its estimate."""
    limit = job.limit_at(now)
    if not job.preemptible:
        return limit
    return min(limit, world.run_times.end_by(job, CAUTIOUS, now))


@dataclass(frozen=True, slots=True)
class Start:
    """When and where a gang can start at the earliest; `firm` as in `Promise`."""

    at: float
    placement: Placement
    firm: bool


class Timeline:
    """The future of a world as planned at one moment.  It books nothing.

    Promises of jobs in `ignored` are left out.  `broken` are those that cannot be kept as planned:
    a node is gone, or somebody holds the place for longer.
    """

    def __init__(self, world: World, now: float, ignored: Collection[str] = ()) -> None:
        self.world = world
        self.now = now
        self.promises = [item for item in live_promises(world) if item.job not in ignored]
        rows = []
        for job in world.holding.values():
            assert job.placement is not None
            rows.append((planned_end(world, job, now), job))
        self._leave_for_promises(rows)
        rows.sort(key=lambda row: (row[0], row[1].id))
        self.ends = np.array([end for end, _ in rows], dtype=np.float64)
        self.holders = [job for _, job in rows]
        self.broken: list[Promise] = []
        self.rooms: dict[int, Pool] = {}
        self.futures = self._futures()

    def _leave_for_promises(self, rows: list[tuple[float, Job]]) -> None:
        """Who may be evicted leaves a promised place in time."""
        if not self.promises or not rows:
            return
        placements = [job.placement for _, job in rows if job.placement is not None]
        nodes = np.concatenate([item.nodes for item in placements])
        bits = np.concatenate([item.bits for item in placements])
        owner = np.repeat(np.arange(len(rows)), [len(item) for item in placements])
        for promise in self.promises:
            taken = np.zeros(len(self.world.pool), dtype=np.uint64)
            np.bitwise_or.at(taken, promise.placement.nodes, promise.placement.bits)
            for number in np.unique(owner[(taken[nodes] & bits) != 0]).tolist():
                end, job = rows[number]
                if end > promise.at and job.preemptible:
                    rows[number] = max(promise.at, self.now), job

    def _futures(self) -> list[Pool]:
        """For each promise, the pool as it will be when all up to it have been kept."""
        futures: list[Pool] = []
        pool, given = self.world.pool.copy(), 0
        active: list[Promise] = []
        for promise in list(self.promises):
            at = max(promise.at, self.now)
            given = self._give(pool, given, at)
            for item in [item for item in active if item.until <= at]:
                pool.give(item.placement)
                active.remove(item)
            nodes = promise.placement.nodes
            try:
                if not pool.usable[nodes].all():
                    raise ValueError("a node of it is gone")
                pool.take(promise.placement)
            except ValueError:
                self.broken.append(promise)
                self.promises.remove(promise)
                continue
            if (pool.cpu_free[nodes] < 0).any() or (pool.memory_free[nodes] < 0).any():
                pool.give(promise.placement)
                self.broken.append(promise)
                self.promises.remove(promise)
                continue
            active.append(promise)
            futures.append(pool.copy())
        self.starts = np.array([item.at for item in self.promises], dtype=np.float64)
        return futures

    def _give(self, pool: Pool, given: int, moment: float) -> int:
        """Gives back what ends up to a moment, from the holder number `given` on."""
        count = int(np.searchsorted(self.ends, moment, side="right"))
        if count > given:
            leaving = self.holders[given:count]
            pool.give(merged([job.placement for job in leaving if job.placement is not None]))
        return max(count, given)

    # -- what a long job leaves alone ----------------------------------------------------------------

    def kept_before(self, end: float) -> int:
        """How many promises a job has to leave room for that starts now and ends by `end`."""
        return int(np.searchsorted(self.starts, end, side="left"))

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
        self.rooms.clear()
        planned = planned_end(self.world, job, self.now)
        number = int(np.searchsorted(self.ends, planned, side="right"))
        self.ends = np.insert(self.ends, number, planned)
        self.holders.insert(number, job)
        try:
            for future in self.futures[: self.kept_before(end)]:
                future.take(placement)
        except ValueError:
            return False
        return True

    # -- the earliest start ----------------------------------------------------------------------------

    def at(self, moment: float) -> Pool:
        """The room for a gang that starts at a moment and stays: promises made already are kept."""
        pool = self.world.pool.copy()
        self._give(pool, 0, moment)
        for promise in self.promises:
            if promise.at <= moment < promise.until:
                pool.take(promise.placement)
        for promise, future in zip(self.promises, self.futures, strict=True):
            if promise.at > moment:
                pool.meet(future)
        return pool

    def earliest(self, job: Job, demand: Demand, lasts_s: float) -> Start | None:
        """The first time from which the gang fits for as long as it lasts; None where no end is known."""
        for begin, limit in self._segments(lasts_s):
            found = self._within(job, demand, begin, limit, lasts_s)
            if found is not None:
                return found
        return None

    def _segments(self, lasts_s: float) -> Iterable[tuple[float, float]]:
        """Spans of start times during which the same windows apply."""
        marks = {self.now}
        for window in self.world.windows.values():
            edges = window.start - lasts_s, window.start, window.until
            marks.update(mark for mark in edges if self.now < mark < NEVER)
        ordered = sorted(marks)
        return zip(ordered, [*ordered[1:], NEVER], strict=True)

    def _within(self, job: Job, demand: Demand, begin: float, limit: float, lasts_s: float) -> Start | None:
        """The first fitting start of a span: what fits at one time of it fits at all later ones."""
        first = int(np.searchsorted(self.ends, begin, side="right"))
        last = int(np.searchsorted(self.ends, limit, side="left"))
        later = self.ends[first:last].tolist()
        later += [item.until for item in self.promises if begin < item.until < limit]
        times = [begin, *sorted(set(later))]
        best: Start | None = None
        low, high = 0, len(times) - 1
        probe = high  # the end of the span first: it tells whether to look for more
        while low <= high:
            found = self._fits(job, demand, times[probe], lasts_s)
            if found is None:
                if best is None:
                    return None
                low = probe + 1
            else:
                best, high = found, probe - 1
            probe = (low + high) // 2
        return best

    def _fits(self, job: Job, demand: Demand, moment: float, lasts_s: float) -> Start | None:
        pool = self.at(moment)
        usable = nodes_for(self.world, job, moment, moment + lasts_s, pool)
        found = place(pool, demand, usable)
        if found is None:
            return None
        count = int(np.searchsorted(self.ends, moment, side="right"))
        return Start(moment, found, self._firm(found, self.holders[:count]))

    def _firm(self, placement: Placement, leaving: Sequence[Job]) -> bool:
        """Whether all who leave the place until then do so by a limit, or may be evicted."""
        taken = np.zeros(len(self.world.pool), dtype=np.bool_)
        taken[placement.nodes] = True
        return not any(
            job.placement is not None and bool(taken[job.placement.nodes].any())
            for job in leaving
            if not job.preemptible and job.time_s is None
        )


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
