"""Order inside a queue: priority, then first come."""

from __future__ import annotations

from l2_aistation.core.world import Job, World

from . import Rank, Request, Right, Rule


class Priority(Rule):
    """The higher priority first; inside a queue it may also ask lower ones to leave."""

    name = "priority"

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
        return Right([other for other in others if other.priority < request.job.priority])


class FirstCome(Rule):
    """The earlier submission first."""

    name = "first-come"

    def rank(self, world: World, job: Job, now: float) -> float:  # noqa: ARG002
        """The time of submission."""
        return job.submitted_at
