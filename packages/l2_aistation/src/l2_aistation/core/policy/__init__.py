"""Policies: who goes first, who may not, who may ask whom to leave.

Each policy is one file here, or a third party's class under the entry point group
`l2_aistation.policies`; the cycle and the actions know none by name.  Ranks are compared in the
order of the tuple of policies, smaller first.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from l2_aistation.core.demand import Demand
from l2_aistation.core.pool import Bools
from l2_aistation.core.refusal import Refusal
from l2_aistation.core.world import Job, World

Rank = float | tuple[Any, ...]


def everybody(_victims: Sequence[Job]) -> bool:
    """Any of those who may be asked may leave together."""
    return True


@dataclass(frozen=True, slots=True)
class Request:
    """A waiting job that asks others to leave, in an action: consolidate, reclaim or preempt."""

    job: Job
    demand: Demand
    action: str
    now: float


@dataclass(frozen=True, slots=True)
class Right:
    """Whom a claimant may ask to leave: any of `victims`, if `allows` them together.

    `where` limits the claimant to some nodes.  With `moves` a victim only has to leave where it gets
    another place at once; `most` then bounds what they may weigh together.  What the policies named in
    `past` protect is not protected from this right.  `otherwise` is asked where this one does not do.
    """

    victims: Iterable[Job]
    allows: Callable[[Sequence[Job]], bool] = everybody
    where: Bools | None = None
    moves: bool = False
    most: int | None = None
    past: frozenset[str] = frozenset()
    otherwise: Right | None = None


class Policy(Protocol):
    """One rule.  All questions are asked of the world as it is at that moment of the cycle."""

    name: str

    def rank(self, world: World, job: Job, now: float) -> Rank:
        """The job's place among others: smaller goes first."""

    def refuses(self, world: World, job: Job, demand: Demand) -> Refusal | None:
        """Why the job may not have `demand` now; None lets it pass."""

    def limits(self, world: World, queue: str) -> bool:
        """Whether `refuses` or `where` may have a say about jobs of a queue that ask for nothing unusual.

        Unusual are labels, rules of placement, data, dependencies, arrays, times and reservations.
        """

    def bars(self, world: World, job: Job, now: float) -> bool:
        """Whether a job that found no place must not be passed by those behind it."""

    def reserves(self, world: World, job: Job, now: float) -> bool:
        """Whether a job that found no place is promised a start, which others then leave alone."""

    def outranks(self, world: World, job: Job, other: Job, now: float) -> bool:
        """Whether a job may delay the start that was promised to another."""

    def where(self, world: World, job: Job) -> Sequence[Bools] | None:
        """The nodes that the job may use, the better ones first; None says nothing about it."""

    def rights(self, world: World, request: Request) -> Right | None:
        """Whom the claimant may ask to leave; None: nobody."""

    def protects(self, world: World, victim: Job, claimant: Job, now: float) -> bool:
        """Whether a job that could be asked to leave must be left alone."""

    def weighs(self, world: World, victim: Job, now: float) -> int:
        """What it costs to let a job leave; weights of all policies add up."""

    def fresh(self) -> Policy:
        """The same policy for another world: it has worked out nothing yet."""


class Rule:
    """A policy that says nothing: the base of those that say one thing."""

    name = "rule"
    ranks_by: tuple[str, ...] | None = None
    """The attributes of a job that its rank depends on; None where that cannot be said.

    The time of submission may be among those of the last policy that ranks.
    """
    asks_in: tuple[str, ...] | None = None
    """The actions in which `rights` may give one; None: any."""
    outranks_by: tuple[str, ...] | None = None
    """The attributes of a job that decide whom it outranks; None where that cannot be said."""

    def rank(self, world: World, job: Job, now: float) -> Rank:  # noqa: ARG002 (the protocol's words)
        """All alike."""
        return 0.0

    def refuses(self, world: World, job: Job, demand: Demand) -> Refusal | None:  # noqa: ARG002
        """Nobody."""
        return None

    def limits(self, world: World, queue: str) -> bool:  # noqa: ARG002
        """Any may be limited."""
        return True

    def bars(self, world: World, job: Job, now: float) -> bool:  # noqa: ARG002
        """Nobody."""
        return False

    def reserves(self, world: World, job: Job, now: float) -> bool:  # noqa: ARG002
        """Nobody."""
        return False

    def outranks(self, world: World, job: Job, other: Job, now: float) -> bool:  # noqa: ARG002
        """Nobody."""
        return False

    def where(self, world: World, job: Job) -> Sequence[Bools] | None:  # noqa: ARG002
        """Anywhere."""
        return None

    def rights(self, world: World, request: Request) -> Right | None:  # noqa: ARG002
        """Nobody."""
        return None

    def protects(self, world: World, victim: Job, claimant: Job, now: float) -> bool:  # noqa: ARG002
        """Nobody."""
        return False

    def weighs(self, world: World, victim: Job, now: float) -> int:  # noqa: ARG002
        """Nothing."""
        return 0

    def fresh(self) -> Policy:
        """A copy whose private attributes are those of a new one.

        To be replaced where a policy cannot be made without arguments.
        """
        made, new = copy.copy(self), type(self)()
        for name in vars(self):
            if name.startswith("_"):
                setattr(made, name, getattr(new, name))
        return made


def says(policy: Policy, question: str) -> bool:
    """Whether a policy has an answer of its own to a question: the others need not be asked."""
    return getattr(type(policy), question, None) is not getattr(Rule, question)


def default_policies() -> tuple[Policy, ...]:
    """The shipped order: queues by guarantee and share, priority, fair tenants, first come."""
    from .attained import LeastAttained
    from .bounded import BoundedStart
    from .cached_data import CachedData
    from .cells import CellGuarantee
    from .consent import Consent
    from .fairness import HierarchicalFairness, TenantFairness
    from .lost_work import LostWork
    from .minimum_run import MinimumRun
    from .models import ModelCaps
    from .moves import Moves
    from .order import FirstCome, Priority
    from .quota import QueueQuota
    from .relations import Relations
    from .users import UserLimits

    return (
        HierarchicalFairness(),
        Priority(),
        LeastAttained(),
        TenantFairness(),
        FirstCome(),
        QueueQuota(),
        ModelCaps(),
        UserLimits(),
        CellGuarantee(),
        Relations(),
        CachedData(),
        Consent(),
        MinimumRun(),
        Moves(),
        LostWork(),
        BoundedStart(),
    )
