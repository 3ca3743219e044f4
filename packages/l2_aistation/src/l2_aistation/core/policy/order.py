"""Order inside a queue: priority, then first come; and nobody waits for ever."""

from __future__ import annotations

from l2_aistation.core.world import Job, World

from . import Rule


class Priority(Rule):
    """The higher priority first."""

    name = "priority"

    def rank(self, world: World, job: Job, now: float) -> float:  # noqa: ARG002
        """The negated priority."""
        return -job.priority


class FirstCome(Rule):
    """The earlier submission first."""

    name = "first-come"

    def rank(self, world: World, job: Job, now: float) -> float:  # noqa: ARG002
        """The time of submission."""
        return job.submitted_at


class Patience(Rule):
    """A job that waited for `limit_s` is not passed any more: the pool drains for it.

    Without this, a steady stream of small jobs keeps a large gang out for ever.
    """

    name = "patience"

    def __init__(self, limit_s: float = 600.0) -> None:
        self.limit_s = limit_s

    def bars(self, world: World, job: Job, now: float) -> bool:  # noqa: ARG002
        """Whether the job has waited long enough."""
        return now - job.submitted_at >= self.limit_s
