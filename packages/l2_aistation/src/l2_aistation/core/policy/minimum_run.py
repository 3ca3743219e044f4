"""A job that has just started is left alone for a while."""

from __future__ import annotations

from l2_aistation.core.world import Job, World

from . import Rule


class MinimumRun(Rule):
    """Within the `min_run_s` of its queue (or of one above it) a job is not asked to leave."""

    name = "minimum-run"

    def protects(self, world: World, victim: Job, claimant: Job, now: float) -> bool:  # noqa: ARG002
        """Whether the job has not had its minimum run time yet."""
        least = world.tree.min_run_s(victim.queue)
        if not least:
            return False
        return victim.started_at is None or now - victim.started_at < least
