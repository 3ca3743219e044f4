"""What an eviction throws away."""

from __future__ import annotations

from l2_aistation.core.world import Job, World

from . import Rule

RESTART_S = 60
"""Seconds that every eviction costs: stopping, waiting for its turn, starting, loading."""

FINEST = 1_000_000_000
"""A share of the pool is counted in thousand-millionths."""


class LostWork(Rule):
    """The run time since the last checkpoint, and that of a restart, times the share of the pool."""

    name = "lost-work"

    def weighs(self, world: World, victim: Job, now: float) -> int:
        """Seconds lost times thousand-millionths of the pool."""
        share = round(world.amount(victim).dominant_share(world.totals) * FINEST)
        return share * (RESTART_S + round(victim.lost_work_s(now)))
