"""Backfill: whoever finds no place and could be starved is promised a start; the rest use the gaps.

A job behind a promise starts only where it ends before the promised time, or where it leaves what was
promised alone.
"""

from __future__ import annotations

from l2_aistation.core import bounds
from l2_aistation.core.cycle import Session
from l2_aistation.core.seat import seat

from .allocate import bar, wants_room


def backfill(session: Session) -> None:
    """Goes on where allocate stopped."""
    turns = session.order()
    while (lane := turns.peek()) is not None:
        job = lane.first
        refusal = seat(session, job)
        if refusal is None:
            bounds.renew(session)
            continue
        if wants_room(refusal) and job.id not in session.world.promises and session.reserves(job):
            bounds.make(session, job)
        own = session.world.waiting.of[job.id]  # a promised job has a lane of its own
        session.refuse(own, refusal)
        if own is lane:
            turns.close(lane)
            session.close(lane, refusal)
        if wants_room(refusal) and session.bars(job):
            bar(session, lane)
            return
    if session.only is None:
        bounds.honour(session)
