"""The actions of a cycle: each is one file, a function of the session."""

from __future__ import annotations

from collections.abc import Sequence

from l2_aistation.core.cycle import Action, Session

from .allocate import allocate
from .backfill import backfill
from .consolidate import consolidate
from .fulfil import fulfil
from .preempt import preempt
from .reclaim import reclaim
from .resize import grow, shrink

__all__ = [
    "Action",
    "Session",
    "allocate",
    "backfill",
    "consolidate",
    "default_actions",
    "fulfil",
    "grow",
    "preempt",
    "reclaim",
    "shrink",
]


def default_actions() -> Sequence[Action]:
    """The shipped order."""
    return (fulfil, allocate, backfill, shrink, consolidate, reclaim, preempt, grow)
