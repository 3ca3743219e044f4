"""A place for one job: what policies, windows and promises leave, and the reason where that is too little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .cycle import Session
from .demand import Demand
from .explain import misfit
from .job import Job
from .placement import place
from .pool import Bools, Placement
from .promise import Promise
from .refusal import Refusal
from .timeline import gap_end, lasts, nodes_for


def seat(session: Session, job: Job) -> Refusal | None:
    """Books a place for the job; the reason where there is none."""
    demand = job.demand
    refusal = session.refused(job, demand)
    if refusal is not None and demand.least < demand.count:
        demand = smallest(demand)
        refusal = session.refused(job, demand)
    if refusal is not None:
        return refusal
    world = session.world
    if not (world.promises or world.windows or job.reservation):
        return _anywhere(session, job, demand)
    return _beside(session, job, demand)


def smallest(demand: Demand) -> Demand:
    """An elastic gang at its least size."""
    if demand.least >= demand.count:
        return demand
    return replace(demand, groups=(replace(demand.groups[0], count=demand.least),))


def _anywhere(session: Session, job: Job, demand: Demand) -> Refusal | None:
    """On what is free, with nothing else to look at."""
    world = session.world
    masks = session.places(job)
    known = world.misfits.get(demand) if masks is None else None
    if known is not None and known[0] == world.pool.grown:
        return known[1]  # the pool has only shrunk since: no second try
    for mask in masks if masks is not None else (None,):
        found = place(world.pool, demand, mask, score=session.score(demand))
        if found is not None:
            session.book(job, found)
            return None
    if masks is None:
        return _misfit(session, demand)
    return _reason(session, demand, masks[-1] if masks else None)


def _beside(session: Session, job: Job, demand: Demand) -> Refusal | None:
    """On what is free and not promised to others while the job would run."""
    world = session.world
    own = world.promises.get(job.id)
    if own is not None and _may_start(session, own) and bookable(session, job, own.placement):
        session.book(job, own.placement)
        return None
    masks = session.places(job)
    plain = masks is None and not world.windows and job.reservation is None
    known = world.misfits.get(demand)
    if plain and known is not None and known[0] == world.pool.grown:
        return known[1]
    if own is not None and plain and place(world.pool, demand) is None:
        return _misfit(session, demand)  # a look at the pool is cheaper than one at the future
    return _in_gap(session, job, demand, masks, plain=plain)


def _may_start(session: Session, own: Promise) -> bool:
    """Whether a promised place, if it is free, may be taken now.

    Before its time where no other promise comes first: on the same nodes the job ends no later than planned,
    so nobody behind it is worse off.  Near reservations and maintenance the plan is kept to the letter.
    """
    if own.at <= session.now:
        return True
    world = session.world
    return not world.windows and all(own.at <= other.at for other in world.promises.values())


def _in_gap(
    session: Session, job: Job, demand: Demand, masks: Sequence[Bools] | None, *, plain: bool
) -> Refusal | None:
    world, now = session.world, session.now
    # Who was promised a start earlier than others may start still earlier, for as long as was planned.
    end = now + lasts(world, job) if job.id in world.promises else gap_end(world, job, now)
    outranked = session.outranked(job)
    timeline = session.timeline(outranked)
    kept = timeline.kept_before(end)
    if plain and kept >= session.misfits.get((demand, outranked), kept + 1):
        return _promised_to(timeline.promises[0].job)
    room = timeline.room(kept)
    pool = world.pool if room is None else room
    usable = None if plain else nodes_for(world, job, now, end, pool)
    for mask in masks if masks is not None else (None,):
        nodes = mask if usable is None else usable if mask is None else usable & mask
        found = place(pool, demand, nodes, score=session.score(demand) if room is None else None)
        if found is not None:
            session.book(job, found)
            session.stale |= bool(outranked)
            return None
    if masks and place(pool, demand, usable) is not None:
        return _reason(session, demand, masks[-1])
    return _why_not(session, job, demand, kept, plain=plain)


def _why_not(session: Session, job: Job, demand: Demand, kept: int, *, plain: bool) -> Refusal:
    world = session.world
    if plain and kept:
        key = demand, session.outranked(job)
        session.misfits[key] = min(kept, session.misfits.get(key, kept))
    if (kept or not plain) and place(world.pool, demand) is not None:
        timeline = session.timeline(session.outranked(job))
        if kept:
            return _promised_to(timeline.promises[0].job)
        return Refusal("window", "would run into a reservation or maintenance of the nodes that are free")
    return _misfit(session, demand) if plain else _reason(session, demand)


def _misfit(session: Session, demand: Demand) -> Refusal:
    """The reason of a demand that does not fit the free pool, kept while that has not grown."""
    reason = _reason(session, demand)
    session.world.misfits[demand] = session.world.pool.grown, reason
    return reason


def _promised_to(job: str) -> Refusal:
    return Refusal(
        "promise", "there is room, but it is promised to job {of} before this one would end", of=job
    )


def _reason(session: Session, demand: Demand, usable: Bools | None = None) -> Refusal:
    if session.words:
        return misfit(session.world, demand, usable)
    return Refusal("room", "finds no room")


def bookable(session: Session, job: Job, placement: Placement) -> bool:
    """Whether a whole placement is free now, on nodes that the job may use."""
    world, pool = session.world, session.world.pool
    nodes, bits = placement.nodes, placement.bits
    end = gap_end(world, job, session.now)
    if not nodes_for(world, job, session.now, end, pool)[nodes].all():
        return False
    if not np.array_equal(pool.free_bits[nodes] & bits, bits):
        return placement.share_milli is not None and _fits_parts(session, placement)
    cpu = np.bincount(nodes, weights=placement.cpu_milli, minlength=len(pool))[nodes]
    memory = np.bincount(nodes, weights=placement.memory_bytes, minlength=len(pool))[nodes]
    return bool((pool.cpu_free[nodes] >= cpu).all() and (pool.memory_free[nodes] >= memory).all())


def _fits_parts(session: Session, placement: Placement) -> bool:
    """By trying, where parts of accelerators are among it."""
    pool = session.world.pool
    try:
        pool.take(placement)
    except ValueError:
        return False
    fits = bool((pool.cpu_free >= 0).all() and (pool.memory_free >= 0).all())
    pool.give(placement)
    pool.grown -= 1
    return fits
