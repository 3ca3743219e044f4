"""Tenants: whoever has the smallest dominant share of the pool goes first."""

from __future__ import annotations

from l2_aistation.core.world import Amount, Job, World

from . import Rule


class TenantFairness(Rule):
    """Dominant resource fairness between tenants (Ghodsi et al., NSDI 2011)."""

    name = "fairness"

    def rank(self, world: World, job: Job, now: float) -> float:  # noqa: ARG002
        """The tenant's dominant share."""
        return world.by_tenant.get(job.tenant, Amount()).dominant_share(world.totals)
