"""Least attained service: who has run least goes first, and long runs make way for short ones.

Where run times are not known, a job that has run for long is likely to run for long again (the
distribution is heavy-tailed), so the one that has run least is likely the one that ends soonest
(Tiresias, NSDI 2019; foreground-background scheduling).  Service is counted in a few levels, so that
jobs of one level do not take turns all the time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from l2_aistation.core.job import NEVER
from l2_aistation.core.world import Job, World

from . import Rank, Request, Right, Rule

LEVELS_S = (3_840.0, 15_360.0, 61_440.0, 245_760.0)
"""Run times at which a job goes down a level: an hour, then four times as long each.

They are ends of the levels by which waiting jobs are kept apart (`core.waiting.level_of`).
"""

MOST_LOST = 0.5
"""The largest part of its run time that a job may lose by making way."""

MOST_OFFERED = 32
"""A single task needs few to choose from."""

MOST_KNOWN = 100_000
"""Levels of holders that are kept."""

MARGIN_S = 0.001
"""Before an edge a level is looked up anew, so that rounding decides nothing."""

STRETCH = 8.0
"""A job that has waited so many times its run time is first again, so that nobody starves."""


class LeastAttained(Rule):
    """Levels of attained service: a rank for those who wait, and a right over those who run."""

    name = "least-attained"
    asks_in = ("preempt",)
    ranks_by = ("ran_s",)

    def __init__(self, levels_s: Sequence[float] = LEVELS_S, stretch: float = STRETCH) -> None:
        self.levels_s = tuple(levels_s)
        self.stretch = stretch
        self._stamp: tuple[object, int] = (None, -1)
        self._known: dict[tuple[str, int, int], list[Job]] = {}
        self._levels: dict[str, tuple[float, float, int, float]] = {}
        """Of holders: since when they run, what they ran before, their level, until when that holds."""

    def level(self, job: Job, now: float) -> int:
        """The level of a job, 0 for one that has hardly run or has waited very long for its kind."""
        ran = job.attained_s(now)
        level = bisect_right(self.levels_s, ran)
        if level and now - job.submitted_at - ran > self.stretch * ran:
            return 0
        return level

    def rank(self, world: World, job: Job, now: float) -> Rank:  # noqa: ARG002
        """The level."""
        return self.level(job, now)

    def rights(self, world: World, request: Request) -> Right | None:
        """Jobs of the queue on a higher level, of no higher priority, soon after a checkpoint."""
        if request.action != "preempt":
            return None
        mine = self.level(request.job, request.now)
        if mine >= len(self.levels_s):
            return None
        victims = self._victims(world, request.job, mine, request.now)
        if request.demand.count == 1:
            victims = victims[:MOST_OFFERED]
        return Right(victims) if victims else None

    def _running(self, job: Job, now: float) -> int:
        """The level of a job that runs; looked up again only once it may have changed."""
        begun = now if job.started_at is None else job.started_at
        known = self._levels.get(job.id)
        if known is not None and known[:2] == (begun, job.ran_s) and now < known[3]:
            return known[2]
        level = self.level(job, now)
        waited = begun - job.ran_s - job.submitted_at
        ends = [edge for edge in (*self.levels_s, waited / self.stretch) if edge > job.attained_s(now)]
        until = begun + min(ends, default=NEVER) - job.ran_s - MARGIN_S
        if len(self._levels) > MOST_KNOWN:
            self._levels.clear()
        self._levels[job.id] = begun, job.ran_s, level, until
        return level

    def _victims(self, world: World, job: Job, mine: int, now: float) -> list[Job]:
        """Who may be asked by a job of this kind, those first that lose the least; worked out once."""
        stamp = world.turn, world.bookings
        if self._stamp != stamp:
            self._stamp = stamp
            self._known.clear()
        key = job.queue, job.priority, mine
        if key not in self._known:
            found = [
                (other.lost_work_s(now), other.id, other)
                for other in world.by_leaf.get(job.queue, {}).values()
                if other.priority <= job.priority and self._running(other, now) > mine
            ]
            found = [item for item in found if item[0] <= MOST_LOST * item[2].attained_s(now)]
            self._known[key] = [other for _, _, other in sorted(found)]
        return self._known[key]
