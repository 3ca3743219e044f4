"""Queues: a guarantee comes first, a cap is never exceeded, in between queues borrow by weight."""

from __future__ import annotations

from l2_aistation.core.demand import Demand
from l2_aistation.core.refusal import Refusal
from l2_aistation.core.world import Amount, Job, Queue, World

from . import Rule

BORROWING = 1.0


class QueueQuota(Rule):
    """Queues below their guarantee go before queues that borrow; each by its share."""

    name = "quota"

    def rank(self, world: World, job: Job, now: float) -> float:  # noqa: ARG002
        """Below 1: how much of the guarantee is used.  From 1 on: the borrowed share by weight."""
        queue = world.queues[job.queue]
        used = world.by_queue.get(job.queue, Amount())
        filled = guarantee_used(queue, used)
        if filled is not None and filled < 1:
            return filled
        return BORROWING + used.dominant_share(world.totals) / queue.weight

    def refuses(self, world: World, job: Job, demand: Demand) -> Refusal | None:
        """Where the queue's cap would be exceeded."""
        queue = world.queues[job.queue]
        used = world.by_queue.get(job.queue, Amount())
        checks = (
            ("accelerators", queue.cap_accelerators, used.accelerators, demand.accelerators),
            ("cpu cores", queue.cap_cpu_cores, used.cpu_milli / 1000, demand.cpu_milli / 1000),
        )
        for unit, cap, in_use, needed in checks:
            if cap is not None and needed and in_use + needed > cap:
                return Refusal(
                    "queue cap",
                    "queue {of} has room for {free} {unit} under its cap, the job needs {needed}",
                    needed=needed,
                    free=max(cap - in_use, 0),
                    unit=unit,
                    of=queue.name,
                    forever=needed > cap,
                )
        return None


def guarantee_used(queue: Queue, used: Amount) -> float | None:
    """The used share of a queue's guarantee (the fullest resource); None without a guarantee."""
    shares = [
        in_use / sure
        for sure, in_use in (
            (queue.guarantee_accelerators, used.accelerators),
            (queue.guarantee_cpu_cores * 1000, used.cpu_milli),
        )
        if sure
    ]
    return max(shares) if shares else None
