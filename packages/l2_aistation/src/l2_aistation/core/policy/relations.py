"""Near which jobs, and apart from which: labels of jobs of the same tenant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from l2_aistation.core.demand import Demand, Relation, Rules
from l2_aistation.core.placement import domains
from l2_aistation.core.pool import Bools, Placement
from l2_aistation.core.refusal import Refusal
from l2_aistation.core.world import Job, World

from . import Rule

NO_RULES = Rules()


class Relations(Rule):
    """A job goes into the domains of those that it is to be near, and out of those it is to be apart from.

    What is required is kept whatever it costs; what is preferred gives way.  A required distance holds
    both ways: nobody who is told to keep away is placed beside, and nobody is placed beside who was told.
    The first job that is to be near its own like may go anywhere.
    """

    name = "relations"

    def limits(self, world: World, queue: str) -> bool:  # noqa: ARG002
        """Jobs without labels and rules are not."""
        return False

    def where(self, world: World, job: Job) -> Sequence[Bools] | None:
        """The nodes that keep all rules, then those that keep the required ones."""
        rules = job.demand.rules or NO_RULES
        if not (rules.near or rules.apart or (world.ruled and job.labels)):
            return None
        must, better = world.pool.usable, world.pool.usable.copy()
        for relation in rules.near:
            found = _held(world, _meant(world, job, relation), relation.level)
            if found is None and relation.matches(job.labels):
                continue
            mask = np.zeros(len(world.pool), dtype=np.bool_) if found is None else found
            must, better = _narrowed(must, better, mask, required=relation.required)
        for relation in rules.apart:
            found = _held(world, _meant(world, job, relation), relation.level)
            if found is not None:
                must, better = _narrowed(must, better, ~found, required=relation.required)
        for level in {relation.level for _, relation in _against(world, job)}:
            those = (other for other, relation in _against(world, job) if relation.level == level)
            found = _held(world, those, level)
            if found is not None:
                must, better = _narrowed(must, better, ~found, required=True)
        return [must] if np.array_equal(must, better) else [better, must]

    def refuses(self, world: World, job: Job, demand: Demand) -> Refusal | None:
        """Where no node at all keeps the required rules."""
        if demand.rules is None or not (demand.rules.near or demand.rules.apart):
            return None
        masks = self.where(world, job)
        if not masks or masks[-1].any() or not world.pool.usable.any():
            return None
        words = ", ".join(_words(relation) for relation in (*demand.rules.near, *demand.rules.apart))
        return Refusal("placement rules", "no node in service keeps its placement rules ({of})", of=words)


def _narrowed(must: Bools, better: Bools, mask: Bools, *, required: bool) -> tuple[Bools, Bools]:
    return (must & mask if required else must), better & mask


def _meant(world: World, job: Job, relation: Relation) -> Iterable[Job]:
    """The jobs that a relation speaks of and that hold nodes."""
    return (
        other
        for other in world.holding.values()
        if other.tenant == job.tenant and other is not job and relation.matches(other.labels)
    )


def _against(world: World, job: Job) -> list[tuple[Job, Relation]]:
    """The jobs that hold nodes and must be apart from this one, each with its word for it."""
    return [
        (other, relation)
        for other in world.ruled.values()
        if other.tenant == job.tenant and other is not job and other.demand.rules is not None
        for relation in other.demand.rules.apart
        if relation.required and relation.matches(job.labels)
    ]


def _held(world: World, jobs: Iterable[Job], level: str) -> Bools | None:
    """The nodes of the domains that some jobs are in; None where none of them holds any."""
    placements: list[Placement] = [other.placement for other in jobs if other.placement is not None]
    if not placements:
        return None
    domain = domains(world.pool, level)
    nodes = np.concatenate([placement.nodes for placement in placements])
    held: Bools = np.isin(domain, domain[nodes])
    return held


def _words(relation: Relation) -> str:
    labels = " ".join(f"{key}={value}" for key, value in relation.labels)
    return f"{labels} by {relation.level}"
