"""The actions of a cycle: each is one file, a function of the session."""

from __future__ import annotations

from collections.abc import Sequence

from l2_aistation.core.cycle import Action, Session

from .allocate import allocate
from .backfill import backfill

__all__ = ["Action", "Session", "allocate", "backfill", "default_actions"]


def default_actions() -> Sequence[Action]:
    """The shipped order."""
    return (allocate, backfill)
