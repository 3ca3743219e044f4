"""What an eviction throws away."""

from __future__ import annotations

from l2_aistation.core.world import Job, World

from . import Rule

RESTART_S = 60
"""Seconds that every eviction costs: stopping, waiting for its turn, starting, loading."""

FINEST = 1_000_000_000
"""A share of the pool is counted in thousand-millionths."""


class LostWork(Rule):
    """The run time since the last checkpoint, and that of a restart, times the share of the accelerators.

    A job without accelerators counts by its dominant share of the rest."""

    name = "lost-work"

    def weighs(self, world: World, victim: Job, now: float) -> int:
        """Seconds lost times thousand-millionths of the pool."""
        held = world.amount(victim)
        if held.accelerator_milli:
            share = held.accelerator_milli * FINEST // (world.totals.accelerators * 1000)
        else:
            share = round(held.dominant_share(world.totals) * FINEST)
        return share * (RESTART_S + round(victim.lost_work_s(now)))
