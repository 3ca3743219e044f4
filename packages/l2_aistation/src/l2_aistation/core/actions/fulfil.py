"""Fulfil: who has a claim starts as soon as its place is free; claims that came to nothing end."""

from __future__ import annotations

from l2_aistation.core.cycle import Session
from l2_aistation.core.job import Job
from l2_aistation.core.seat import smallest
from l2_aistation.core.states import JobState


def fulfil(session: Session) -> None:
    """Looks at every claim, the oldest first."""
    world = session.world
    for name in sorted(world.claims, key=lambda name: (world.claims[name].since, name)):
        job = world.jobs[name]
        if job.placement is not None and job.state is not JobState.QUEUED:
            continue  # it is to move, and has not stopped yet
        why = _over(session, job)
        if why:
            session.statement.release(job, why)
        elif world.ripe(job):
            _start(session, job)


def _over(session: Session, job: Job) -> str:
    """Why a claim has come to nothing; empty while it has not."""
    world = session.world
    claim = world.claims[job.id]
    if job.state is not JobState.QUEUED:
        return "the job does not wait any more"
    if not world.pool.usable[claim.placement.nodes].all():
        return "a node of it is out of service"
    held = any(name in world.holding for name in claim.victims)
    if not held and not world.ripe(job):
        return "somebody else holds a part of it"
    return ""


def _start(session: Session, job: Job) -> None:
    """The claim turns into a booking, unless a limit of the queue has changed meanwhile."""
    placement = session.world.claims[job.id].placement
    session.statement.release(job, "its place is free")
    refusal = session.refused(job, smallest(job.demand))
    if refusal is None:
        session.book(job, placement)
