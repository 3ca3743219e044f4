"""Promised starts: made when a job begins to wait, kept, and moved only for a reason that is told."""

from __future__ import annotations

from .claims import Claim
from .cycle import Session
from .job import Job
from .promise import Promise
from .seat import smallest
from .timeline import USUAL, Wish, lasts, planned_end
from .world import World

DUE = "bound"
"""The action under which a job leaves because the place was promised to another by now."""


def make(session: Session, job: Job, why: str = "", behind: frozenset[str] = frozenset()) -> Promise | None:
    """Promises a start; None where no end of what runs is known.  Jobs `behind` it may be delayed."""
    if job.id in session.world.promises:
        session.promise(job, None)
    span = lasts(session.world, job)
    wish = Wish(job, smallest(job.demand), span, session.places(job))
    start = session.timeline(behind).earliest(wish)
    if start is None:
        return None
    promise = Promise(job.id, start.at, start.at + span, start.placement)
    if job.promised_at is not None and start.at > job.promised_at and not why:
        why = "what runs now is planned to end later than before"
    session.promise(job, promise, why)
    return promise


def renew(session: Session) -> None:
    """Moves the promises that cannot be kept, each with its reason, where a booking may have broken one."""
    if not session.stale:
        return
    session.stale = False
    for _ in range(len(session.world.promises)):
        broken = session.timeline().broken
        if not broken:
            return
        job = session.world.jobs[broken[0].job]
        make(session, job, why_broken(session, broken[0]), _behind(session, job))


def _behind(session: Session, job: Job) -> frozenset[str]:
    """Those with a promise that come after a job: they make way when its promise moves."""
    world, mine = session.world, (session.rank(job), job.submitted_at, job.id)
    others = [world.jobs[name] for name in world.promises if name in world.jobs]
    return frozenset(
        other.id for other in others if (session.rank(other), other.submitted_at, other.id) > mine
    )


def why_broken(session: Session, promise: Promise) -> str:
    """Who or what stands in the way."""
    world, pool = session.world, session.world.pool
    gone = [pool.facts[node].id for node in promise.placement.nodes.tolist() if not pool.usable[node]]
    if gone:
        return f"node {gone[0]} of the promised place is out of service"
    for job in sitting(world, promise):
        if planned_end(world, job, session.now) <= promise.at:
            continue
        if not job.preemptible:
            return f"job {job.id} holds the promised place for longer and must not be evicted"
        return f"job {job.id} holds the promised place"
    return "what is promised to others leaves no room"


def sitting(world: World, promise: Promise) -> list[Job]:
    """The jobs that hold a part of a promised place, in order of their ids."""
    taken = promise.by_node(len(world.pool))
    on_it = {int(node) for node in promise.placement.nodes}
    found = []
    for job in world.holding.values():
        place = job.placement
        if place is None:
            continue
        meets = bool((taken[place.nodes] & place.bits).any())
        if meets or (not promise.placement.bits.any() and on_it & set(place.nodes.tolist())):
            found.append(job)
    return sorted(found, key=lambda item: item.id)


def honour(session: Session) -> None:
    """Clears the place of a promise that is due: whoever may be evicted has to leave it now."""
    world, now = session.world, session.now
    for promise in [item for item in world.promises.values() if item.at <= now]:
        job = world.jobs[promise.job]
        if not job.waits:
            continue
        victims = sitting(world, promise)
        if not victims or any(not _may_leave(session, victim, job) for victim in victims):
            continue
        for victim in victims:
            session.statement.evict(victim, job, DUE, now)
        names = tuple(victim.id for victim in victims)
        session.promise(job, None)
        session.statement.claim(job, Claim(promise.placement, names, now, DUE))


def _may_leave(session: Session, victim: Job, claimant: Job) -> bool:
    """Whether a job that is still there has to go: it had its time, or was let in after the claimant came."""
    world = session.world
    came_later = victim.started_at is not None and victim.started_at >= claimant.submitted_at
    had_its_time = world.run_times.expected(victim, USUAL) is not None
    return (
        victim.preemptible
        and (came_later or had_its_time)
        and victim.id not in world.leaving()
        and world.may_evict(claimant.id, victim.id)
        and not session.protects(victim, claimant)
    )


def next_wake(world: World, now: float) -> float | None:
    """When a cycle is due though nothing happens: a promise, an edge of a window, a time of day."""
    moments = [promise.at for promise in world.promises.values()]
    moments += [edge for window in world.windows.values() for edge in (window.start, window.until)]
    moments += [job.not_before for job in world.waiting.timed() if job.not_before is not None]
    return min((moment for moment in moments if moment > now), default=None)
