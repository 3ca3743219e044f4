"""Consolidate: small jobs move together where a large one then fits, and have their new places at once."""

from __future__ import annotations

from l2_aistation.core.cycle import Session

from .make_way import make_way


def consolidate(session: Session) -> None:
    """For those who wait though enough is free, in pieces."""
    make_way(session, "consolidate")
