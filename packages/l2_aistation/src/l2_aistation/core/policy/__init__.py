"""Policies: who goes first, who may not, who may not be passed.

Each policy is one file here, or a third party's class under the entry point group
`l2_aistation.policies`; the cycle knows none by name.  Ranks are compared in the order of the tuple
of policies, smaller first.
"""

from __future__ import annotations

from typing import Protocol

from l2_aistation.core.demand import Demand
from l2_aistation.core.refusal import Refusal
from l2_aistation.core.world import Job, World


class Policy(Protocol):
    """One rule.  All three questions are asked of the world as it is at that moment of the cycle."""

    name: str

    def rank(self, world: World, job: Job, now: float) -> float:
        """The job's place among others: smaller goes first."""

    def refuses(self, world: World, job: Job, demand: Demand) -> Refusal | None:
        """Why the job may not have `demand` now; None lets it pass."""

    def bars(self, world: World, job: Job, now: float) -> bool:
        """Whether a job that found no place must not be passed by those behind it."""


class Rule:
    """A policy that says nothing: the base of those that say one thing."""

    name = "rule"

    def rank(self, world: World, job: Job, now: float) -> float:  # noqa: ARG002 (the protocol's words)
        """All alike."""
        return 0.0

    def refuses(self, world: World, job: Job, demand: Demand) -> Refusal | None:  # noqa: ARG002
        """Nobody."""
        return None

    def bars(self, world: World, job: Job, now: float) -> bool:  # noqa: ARG002
        """Nobody."""
        return False


def default_policies() -> tuple[Policy, ...]:
    """The shipped order: queues below their guarantee, priority, fair tenants, first come."""
    from .fairness import TenantFairness
    from .order import FirstCome, Patience, Priority
    from .quota import QueueQuota

    return (QueueQuota(), Priority(), TenantFairness(), FirstCome(), Patience())
