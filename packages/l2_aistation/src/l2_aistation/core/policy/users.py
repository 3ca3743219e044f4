"""Limits of each user inside a queue."""

from __future__ import annotations

from l2_aistation.core.amount import WHOLE, Amount
from l2_aistation.core.demand import Demand
from l2_aistation.core.refusal import Refusal
from l2_aistation.core.world import Job, World

from . import Rule

NOTHING = Amount()


class UserLimits(Rule):
    """No user of a queue holds more accelerators, or runs more jobs, than it lets each of them."""

    name = "user-limits"

    def limits(self, world: World, queue: str) -> bool:
        """Where it or one above it limits its users."""
        above = [world.queues[name] for name in world.lineage(queue) if name in world.queues]
        return any(
            one.user_limit_accelerators is not None or one.user_limit_jobs is not None for one in above
        )

    def refuses(self, world: World, job: Job, demand: Demand) -> Refusal | None:
        """Where the user would exceed a limit of the queue or of one above it."""
        for name in world.lineage(job.queue):
            queue = world.queues.get(name)
            if queue is None:
                continue
            used = world.by_user.get((name, job.tenant, job.owner), NOTHING)
            for unit, limit, held, needed in (
                (
                    "accelerators",
                    queue.user_limit_accelerators,
                    used.accelerator_milli,
                    demand.accelerator_milli,
                ),
                ("jobs", queue.user_limit_jobs, used.jobs * WHOLE, WHOLE),
            ):
                if limit is not None and needed and held + needed > limit * WHOLE:
                    return Refusal(
                        "user limit",
                        "queue {of} leaves each user {free} more {unit}, the job needs {needed}",
                        needed=needed / WHOLE,
                        free=max(limit * WHOLE - held, 0) / WHOLE,
                        unit=unit,
                        of=name,
                        forever=needed > limit * WHOLE,
                    )
        return None
