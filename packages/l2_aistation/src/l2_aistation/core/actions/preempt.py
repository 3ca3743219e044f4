"""Preempt: inside a queue the higher priority takes the place of lower ones."""

from __future__ import annotations

from l2_aistation.core.cycle import Session

from .make_way import make_way


def preempt(session: Session) -> None:
    """Inside queues."""
    make_way(session, "preempt")
