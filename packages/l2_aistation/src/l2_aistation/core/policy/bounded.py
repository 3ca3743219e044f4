"""Nobody waits for ever: a gang that finds no place is promised a start, and a place is kept for it."""

from __future__ import annotations

from l2_aistation.core.world import Job, World

from . import Rule

MOST_PROMISES = 8
"""Promises at a time: each costs a look at the future in every cycle."""

AGAIN_S = 86_400.0
"""A job that made way for others is promised a start too, once it has waited so long in all."""


class BoundedStart(Rule):
    """Jobs that small ones could keep out for ever have their start bounded when they begin to wait.

    A job of a single task that asks for one accelerator at most, or for a small part of a node, is
    served by whatever becomes free and needs no promise; with `every` it gets one nevertheless.
    """

    name = "bounded-start"

    def __init__(self, most: int = MOST_PROMISES, *, every: bool = False) -> None:
        self.most = most
        self.every = every

    def reserves(self, world: World, job: Job, now: float) -> bool:
        """While there are few promises: to each that could be starved and has not started, or long ago."""
        if job.ran_s > 0 and now - job.submitted_at - job.ran_s < AGAIN_S:
            return False
        return len(world.promises) < self.most and (self.every or can_be_starved(world, job))


def can_be_starved(world: World, job: Job) -> bool:
    """Whether the job needs more at once than the smallest jobs leave behind when they end."""
    group = job.demand.groups[0]
    if len(job.demand.groups) > 1 or job.demand.least > 1 or group.accelerators > 1:
        return True
    if group.accelerators or not len(world.pool):
        return False
    return 2 * group.cpu_milli > int(world.pool.cpu_total.max()) or 2 * group.memory_bytes > int(
        world.pool.memory_total.max() or 1 << 62
    )
