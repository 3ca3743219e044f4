"""Order inside a queue: priority, then first come."""

from __future__ import annotations

from math import inf

from l2_aistation.core.world import Job, World

from . import Rank, Request, Right, Rule


class Priority(Rule):
    """The higher priority first; inside a queue it may also ask lower ones to leave."""

    name = "priority"
    asks_in = ("preempt",)

    def __init__(self) -> None:
        self._lowests: dict[str, float] = {}
        self._stamp: tuple[object, int] = (None, -1)

    ranks_by = ("priority",)
    outranks_by = ("queue", "priority")

    def rank(self, world: World, job: Job, now: float) -> Rank:  # noqa: ARG002
        """The negated priority."""
        return -job.priority

    def outranks(self, world: World, job: Job, other: Job, now: float) -> bool:  # noqa: ARG002
        """Jobs of one queue by their priority."""
        return job.queue == other.queue and job.priority > other.priority

    def rights(self, world: World, request: Request) -> Right | None:
        """Running jobs of the same queue with a lower priority."""
        if request.action != "preempt":
            return None
        others = world.by_leaf.get(request.job.queue, {}).values()
        if self._lowest(world, request.job.queue) >= request.job.priority:
            return None
        lower = [other for other in others if other.priority < request.job.priority]
        return Right(lower)

    def _lowest(self, world: World, queue: str) -> float:
        """The lowest priority that runs in a queue."""
        stamp = world.turn, world.bookings
        if stamp != self._stamp:
            self._lowests, self._stamp = {}, stamp
        if queue not in self._lowests:
            jobs = world.by_leaf.get(queue, {}).values()
            self._lowests[queue] = min((job.priority for job in jobs), default=inf)
        return self._lowests[queue]

    def protects(self, world: World, victim: Job, claimant: Job, now: float) -> bool:  # noqa: ARG002
        """Inside a queue nobody leaves for a lower priority."""
        return victim.queue == claimant.queue and victim.priority > claimant.priority


class FirstCome(Rule):
    """The earlier submission first."""

    name = "first-come"
    ranks_by = ("submitted_at",)

    def rank(self, world: World, job: Job, now: float) -> float:  # noqa: ARG002
        """The time of submission."""
        return job.submitted_at
