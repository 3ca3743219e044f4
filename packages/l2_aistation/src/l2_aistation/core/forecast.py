"""When a waiting job will start, as planned now: its promise, or the first time that leaves it room."""

from __future__ import annotations

from .job import NEVER, Job
from .refusal import Refusal
from .seat import smallest
from .timeline import Timeline, Wish, gap_end, planned_end
from .world import World


def estimate(world: World, job: Job, refusal: Refusal | None, now: float) -> float | None:
    """Seconds since the epoch; None where nobody can tell.  It books nothing and promises nothing."""
    promise = world.promises.get(job.id)
    if promise is not None:
        return max(promise.at, now)
    if refusal is None:
        return now
    if refusal.forever or refusal.limit in ("dependency", "array", "order"):
        return None
    if refusal.limit in ("not before", "reservation"):
        window = world.windows.get(job.reservation or "")
        return job.not_before if window is None else max(window.start, now)
    if refusal.limit in ("queue cap", "user limit"):
        return _limit_frees(world, refusal, now)
    return _room_frees(world, job, now)


def _room_frees(world: World, job: Job, now: float) -> float | None:
    lasts = gap_end(world, job, now) - now
    start = Timeline(world, now).earliest(Wish(job, smallest(job.demand), lasts))
    return None if start is None else start.at


def _limit_frees(world: World, refusal: Refusal, now: float) -> float | None:
    """When enough of those under the same limit have left."""
    missing = refusal.needed - refusal.free
    ends = sorted(
        (planned_end(world, other, now), world.amount(other).accelerators, other.id)
        for other in world.holders()
        if refusal.of in world.lineage(other.queue) or refusal.of == other.owner
    )
    for end, accelerators, _ in ends:
        missing -= accelerators
        if missing <= 0:
            return None if end == NEVER else end
    return None
