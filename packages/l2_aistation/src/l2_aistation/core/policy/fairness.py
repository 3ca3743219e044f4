"""Whoever has the smallest share goes first: queues down their tree, then tenants."""

from __future__ import annotations

from typing import Any

from l2_aistation.core.amount import WHOLE, Amount
from l2_aistation.core.cells import size_milli
from l2_aistation.core.guarantee import filled
from l2_aistation.core.world import Job, Queue, World

from . import Rank, Rule

NOTHING = Amount()
SURE, BORROWING = 0, 1


class HierarchicalFairness(Rule):
    """Hierarchical dominant resource fairness with memory (Bhattacharya et al., SoCC 2013).

    From the root down, at each level a queue below its guarantee goes before one that borrows, then
    the smaller share; a borrower's share is its dominant share of the pool over its weight, to which
    the decayed mean of what it held before adds with weight `past`.  Dimensions that are unlimited
    for a queue stay out of its share.
    """

    name = "hierarchical-fairness"
    ranks_by = ("queue",)

    def __init__(self, past: float = 1.0) -> None:
        self.past = past
        self._known: dict[str, tuple[Any, ...]] = {}
        self._stamp: tuple[object, int] = (None, -1)

    def rank(self, world: World, job: Job, now: float) -> Rank:  # noqa: ARG002
        """The shares of the queues from the root down to the job's; names keep branches apart."""
        stamp = world.turn, world.bookings
        if stamp != self._stamp:
            self._known.clear()
            self._stamp = stamp
        path = self._known.get(job.queue)
        if path is None:
            steps = [self._step(world, name) for name in world.lineage(job.queue)]
            path = self._known[job.queue] = tuple(reversed(steps))
        return path

    def _step(self, world: World, name: str) -> tuple[int, float, str]:
        queue = world.queues.get(name) or Queue(name)
        used = world.by_queue.get(name, NOTHING)
        cells = size_milli(world, queue.cells) if queue.cells else 0
        sure = filled(queue, used, cells)
        if sure is not None and sure < 1:
            return SURE, sure, name
        return BORROWING, self.share(world, queue, used), name

    def share(self, world: World, queue: Queue, used: Amount) -> float:
        """The weighted share, the past included."""
        totals, unlimited = world.totals, queue.unlimited
        now = used.dominant_share(totals, unlimited)
        if not self.past:
            return now / queue.weight
        mean = world.decay.of(queue.name)
        sizes = totals.accelerators * WHOLE, totals.cpu_milli, totals.memory_bytes
        held = used.accelerator_milli, used.cpu_milli, used.memory_bytes
        names = "accelerators", "cpu", "memory"
        most = max(
            (held[at] + self.past * mean[at]) / sizes[at] if sizes[at] and names[at] not in unlimited else 0.0
            for at in range(3)
        )
        return most / queue.weight


class TenantFairness(Rule):
    """Dominant resource fairness between the tenants of a queue (Ghodsi et al., NSDI 2011)."""

    name = "fairness"
    ranks_by = ("tenant",)

    def rank(self, world: World, job: Job, now: float) -> Rank:  # noqa: ARG002
        """The tenant's dominant share."""
        return world.by_tenant.get(job.tenant, NOTHING).dominant_share(world.totals)
