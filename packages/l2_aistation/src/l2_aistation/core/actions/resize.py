"""Resize: elastic jobs make room for those who wait, and take it again when nobody does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from l2_aistation.core import elastic
from l2_aistation.core.claims import Claim
from l2_aistation.core.cycle import Session
from l2_aistation.core.job import Job
from l2_aistation.core.pool import Placement
from l2_aistation.core.seat import smallest

from .allocate import wants_room

SHRINK, GROW = "shrink", "grow"
MOST_CLAIMANTS = 4


def shrink(session: Session) -> None:
    """Elastic jobs above their least size give up what a waiting job needs, the best ranked first."""
    world = session.world
    if not world.elastic:
        return
    lanes = [lane for lane in session.lanes() if lane.entries and lane.refusal is not None]
    blocked = [lane.first for lane in lanes if lane.refusal is not None and wants_room(lane.refusal)]
    for job in sorted(blocked, key=lambda job: (session.rank(job), job.submitted_at, job.id))[
        :MOST_CLAIMANTS
    ]:
        if job.id in world.claims or session.places(job) is not None or world.windows:
            continue
        found = elastic.shrink(world, smallest(job.demand), session.now, _asks(session, job))
        if found is not None and found[1]:
            _carry_out(session, job, *found)


def _asks(session: Session, claimant: Job) -> Callable[[Job], bool]:
    def may(job: Job) -> bool:
        return session.world.may_evict(claimant.id, job.id) and not session.protects(job, claimant)

    return may


def _carry_out(session: Session, job: Job, placement: Placement, resizes: Sequence[elastic.Resize]) -> None:
    statement, now = session.statement, session.now
    for item in resizes:
        statement.evict(item.job, job, SHRINK, now)
    names = tuple(item.job.id for item in resizes)
    statement.claim(job, Claim(placement, names, now, SHRINK))
    for item in resizes:
        statement.claim(item.job, Claim(item.placement, (), now, SHRINK))


def grow(session: Session) -> None:
    """One elastic job a cycle goes on at a larger size, where nobody waits."""
    world = session.world
    if not world.elastic or len(world.waiting) or world.claims or session.only is not None:
        return
    found = elastic.grow(world, session.now)
    if found is not None:
        session.statement.evict(found.job, found.job, GROW, session.now)
        session.statement.claim(found.job, Claim(found.placement, (), session.now, GROW))
