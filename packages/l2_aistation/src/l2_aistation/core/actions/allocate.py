"""Allocate: waiting jobs get a place, the best ranked first, each whole or not at all.

It stops at the first job that finds no place and is to have a start promised: from there on it is
backfill's turn.
"""

from __future__ import annotations

from l2_aistation.core import bounds
from l2_aistation.core.cycle import Session
from l2_aistation.core.refusal import Refusal
from l2_aistation.core.seat import seat
from l2_aistation.core.waiting import Lane

POLICY_LIMITS = frozenset({"queue cap", "user limit", "dependency", "array", "not before", "reservation"})
"""What is not a want of room: nobody has to make way for it."""


def allocate(session: Session) -> None:
    """Places those that fit, in order, until one has to be promised a start."""
    if session.only is None:
        session.stale = bool(session.world.promises)
        bounds.renew(session)
    turns = session.order()
    while (lane := turns.peek()) is not None:
        job = lane.first
        refusal = seat(session, job)
        if refusal is None:
            bounds.renew(session)
            continue
        if wants_room(refusal) and job.id not in session.world.promises and session.reserves(job):
            session.refuse(lane, refusal)
            return
        turns.close(lane)
        session.refuse(lane, refusal)
        session.close(lane, refusal)
        if wants_room(refusal) and session.bars(job):
            bar(session, lane)
            return


def wants_room(refusal: Refusal) -> bool:
    """Whether a job could start if others left."""
    return refusal.limit not in POLICY_LIMITS and not refusal.forever


def bar(session: Session, first: Lane) -> None:
    """Nobody passes: the rest is told whom it waits for."""
    session.barred = True
    behind = Refusal("order", "waits behind job {of}, which is due and must not be passed", of=first.first.id)
    turns = session.order()
    while (lane := turns.peek()) is not None:
        turns.close(lane)
        session.refuse(lane, behind)
