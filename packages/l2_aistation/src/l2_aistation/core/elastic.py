"""Elastic gangs: they start at the largest size that fits, shrink before anybody is thrown out, grow again.

A job changes its size by a restart from its checkpoint: it is asked to leave, with a claim on its own
place at the new size.  Shrinking makes room for others; growing waits until nobody else wants it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .demand import Demand
from .job import Job
from .placement import place
from .pool import Placement, Pool
from .states import JobState
from .world import World

SETTLED_S = 600.0
"""A job changes its size at most so often: each change costs a restart."""

WORTH = 0.25
"""A job grows only by so much of its size at least."""


@dataclass(frozen=True, slots=True)
class Resize:
    """A job that is to go on at another place and size."""

    job: Job
    placement: Placement


def ready(world: World, job: Job, now: float) -> bool:
    """Whether an elastic job may be restarted at another size now."""
    return (
        job.preemptible
        and job.state is JobState.RUNNING
        and job.started_at is not None
        and now - job.started_at >= SETTLED_S
        and job.id not in world.claims
    )


def shrinkable(world: World, now: float) -> list[Job]:
    """Elastic jobs above their least size, those first that lose the least work by a restart."""
    leaving = world.leaving()
    found = [
        (job.lost_work_s(now), job.id, job)
        for job in world.elastic.values()
        if ready(world, job, now) and len(place_of(job)) > job.demand.least and job.id not in leaving
    ]
    return [job for _, _, job in sorted(found)]


def place_of(job: Job) -> Placement:
    """The place of a job that holds one."""
    if job.placement is None:
        raise ValueError(f"job {job.id} holds nothing")
    return job.placement


def kept(job: Job, ranks: int) -> Placement:
    """The first ranks of a job's place: what it goes on with when it shrinks."""
    placement = place_of(job)
    share, size = placement.share_milli, placement.share_bytes
    return replace(
        placement,
        nodes=placement.nodes[:ranks],
        bits=placement.bits[:ranks],
        groups=placement.groups[:ranks],
        cpu_milli=placement.cpu_milli[:ranks],
        memory_bytes=placement.memory_bytes[:ranks],
        share_milli=None if share is None else share[:ranks],
        share_bytes=None if size is None else size[:ranks],
    )


def shrink(
    world: World, demand: Demand, now: float, may: Callable[[Job], bool]
) -> tuple[Placement, list[Resize]] | None:
    """A place for a waiting demand among what elastic jobs can spare, and what those go on with.

    `may` says whether a job can be asked.  None where that is not enough.  As few as possible shrink,
    each no further than it has to.
    """
    pool = world.pool.copy()
    resizes: list[Resize] = []
    for job in shrinkable(world, now):
        if not may(job):
            continue
        pool.give(place_of(job))
        unit = job.demand.unit
        least, most = job.demand.least, (len(place_of(job)) - 1) // unit * unit
        found = _beside(pool, demand, kept(job, least))
        if found is None:
            pool.take(kept(job, least))
            resizes.append(Resize(job, kept(job, least)))
            continue
        while least < most:  # no further than it has to
            middle = (least // unit + most // unit + 1) // 2 * unit
            better = _beside(pool, demand, kept(job, middle))
            if better is None:
                most = middle - unit
            else:
                least, found = middle, better
        return found, [*resizes, Resize(job, kept(job, least))]
    return None


def _beside(pool: Pool, demand: Demand, other: Placement) -> Placement | None:
    """Where a demand goes beside another place."""
    pool.take(other)
    found = place(pool, demand)
    pool.give(other)
    return found


def grow(world: World, now: float) -> Resize | None:
    """The job that gains the most by a restart at a larger size; to be asked where nobody waits."""
    best: tuple[float, str, Resize] | None = None
    for job in world.elastic.values():
        before = len(place_of(job))
        if before >= job.demand.count or not ready(world, job, now) or job.lost_work_s(now) > SETTLED_S:
            continue
        pool = world.pool.copy()
        pool.give(place_of(job))
        found = place(pool, job.demand)
        gain = 0.0 if found is None else len(found) / before - 1
        if found is not None and gain >= WORTH and (best is None or (-gain, job.id) < best[:2]):
            best = -gain, job.id, Resize(job, found)
    return None if best is None else best[2]
