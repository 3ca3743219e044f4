"""Jobs and queues that were made not to be asked to leave."""

from __future__ import annotations

from l2_aistation.core.world import Job, World

from . import Rule


class Consent(Rule):
    """What is not preemptible is left alone: a job by its spec, all jobs of a queue by its setting."""

    name = "consent"

    def protects(self, world: World, victim: Job, claimant: Job, now: float) -> bool:  # noqa: ARG002
        """Whether the job, its queue or one above it is not preemptible."""
        return not (victim.preemptible and world.tree.preemptible(victim.queue))
