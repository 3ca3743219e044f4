"""Reclaim: who is within its guarantee takes back what others borrow."""

from __future__ import annotations

from l2_aistation.core.cycle import Session

from .make_way import make_way


def reclaim(session: Session) -> None:
    """Between queues."""
    make_way(session, "reclaim")
