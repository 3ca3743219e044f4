"""Trying who could leave, on copies of the pool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from l2_aistation.core.cycle import Session
from l2_aistation.core.job import Job
from l2_aistation.core.placement import place
from l2_aistation.core.policy import Request, Right
from l2_aistation.core.pool import Bools, Placement, Pool
from l2_aistation.core.refusal import Refusal
from l2_aistation.core.seat import smallest
from l2_aistation.core.slots import merged
from l2_aistation.core.timeline import gap_end, nodes_for
from l2_aistation.core.world import World

from .candidates import Candidate

SOLVABLE = frozenset({"queue cap", "user limit"})
"""Limits of a policy that others can make way under."""


MOST_MERGED = 64
"""Victims that are put together one by one."""

MOST_NARROWED = 128
"""Candidates that are looked at one by one where not all may leave together."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the claimant goes, who leaves for it, and where those go who are moved."""

    placement: Placement
    victims: tuple[Candidate, ...]
    moves: dict[str, Placement] = field(default_factory=dict)

    @property
    def rank(self) -> tuple[int, int]:
        """What the plan costs: the weight of the victims, then their number."""
        return sum(item.weight for item in self.victims), len(self.victims)


class Trial:
    """One claimant, its right, and those whom it may ask."""

    def __init__(self, session: Session, request: Request, right: Right, candidates: list[Candidate]) -> None:
        self.session = session
        self.world: World = session.world
        self.pool: Pool = session.world.pool
        self.request = request
        self.right = right
        self.candidates = candidates
        self.demand = request.demand
        self.everybody = merged([item.placement for item in candidates])
        """All that the candidates hold, rank by rank."""
        self.who = np.repeat(np.arange(len(candidates)), [len(item.placement) for item in candidates])
        """The candidate of each of these ranks."""
        self.masks = self._masks()
        self.refusal = session.refused(request.job, self.demand)

    def _masks(self) -> list[Bools]:
        """The nodes that policies leave the claimant, the better ones first."""
        job, now, right = self.request.job, self.request.now, self.right.where
        usable = nodes_for(self.world, job, now, gap_end(self.world, job, now), self.pool)
        if right is not None:
            return [usable & right]
        places = self.session.places(job)
        return [usable] if places is None else [usable & mask for mask in places]

    @property
    def by_room(self) -> bool:
        """Whether counting tasks by node tells all about the claimant's room."""
        groups, rules = self.demand.groups, self.demand.rules
        return len(groups) == 1 and not groups[0].part and (rules is None or rules.spread_level is None)

    def pool_without(self, victims: Sequence[Candidate]) -> Pool:
        """The pool as it would be without some of those who hold it."""
        pool = self.pool.copy()
        if victims:
            pool.give(self._merged(victims))
        return pool

    def _merged(self, victims: Sequence[Candidate]) -> Placement:
        """All that some candidates hold; of many, picked out of what all hold."""
        if len(victims) == len(self.candidates):
            return self.everybody
        if len(victims) < MOST_MERGED or len(victims) * 4 < len(self.candidates):
            return merged([item.placement for item in victims])
        chosen = np.zeros(len(self.candidates), dtype=np.bool_)
        chosen[[item.number for item in victims]] = True
        return picked(self.everybody, chosen[self.who])

    def place(self, victims: Sequence[Candidate], region: Bools | None = None) -> Placement | None:
        """Where the claimant would go if some left."""
        pool = self.pool_without(victims)
        for mask in self.masks:
            found = place(pool, self.demand, mask if region is None else mask & region)
            if found is not None:
                return found
        return None

    def refused(self, victims: Sequence[Candidate]) -> Refusal | None:
        """Which limit would keep the claimant out even if some left."""
        if self.refusal is None:
            return None
        with without(self.world, [item.job for item in victims]):
            return self.session.refused(self.request.job, self.demand)

    def feasible(self) -> bool:
        """Whether the claimant could start if all left, and needs that any of them does."""
        if self.refusal is not None:
            if self.refusal.forever or self.refusal.limit not in SOLVABLE:
                return False
            if self.refused(self.candidates) is not None:
                return False
        elif self.place(()) is not None:
            return False  # it only waits for its turn
        return self.place(self.candidates) is not None

    def narrowed(self) -> Trial | None:
        """The same with candidates that may all leave together, the lightest first; None if all may."""
        if self.right.allows([item.job for item in self.candidates]):
            return None
        together: list[Candidate] = []
        for item in self.candidates[:MOST_NARROWED]:
            if self.right.allows([other.job for other in (*together, item)]):
                together.append(item)
        if not together:
            return None
        for number, item in enumerate(together):
            item.number = number
        return Trial(self.session, self.request, self.right, together)

    def plan(self, victims: Sequence[Candidate], region: Bools | None = None) -> Plan | None:
        """The plan with exactly these victims; None where they are too few, or may not leave together."""
        weight = sum(item.weight for item in victims)
        if self.right.most is not None and weight > self.right.most:
            return None
        if not self.right.allows([item.job for item in victims]) or self.refused(victims) is not None:
            return None
        placement = self.place(victims, region)
        if placement is None:
            return None
        if not self.right.moves:
            return Plan(placement, tuple(victims))
        moves = self._moved(victims, placement)
        return None if moves is None else Plan(placement, tuple(victims), moves)

    def spread(self, plan: Plan) -> tuple[int, int]:
        """Over how many leaves and spines the claimant would run."""
        leaves = np.unique(self.pool.leaf[plan.placement.nodes])
        return len(leaves), len(np.unique(self.pool.leaf_spine[leaves]))

    def _moved(self, victims: Sequence[Candidate], placement: Placement) -> dict[str, Placement] | None:
        """Another place for each that leaves; None where one finds none."""
        pool = self.pool_without(victims)
        pool.take(placement)
        moves: dict[str, Placement] = {}
        for item in sorted(victims, key=lambda item: (-len(item.placement), item.job.id)):
            demand = smallest(item.job.demand)
            places = self.session.places(item.job)
            for mask in places if places is not None else (None,):
                found = place(pool, demand, mask)
                if found is not None:
                    pool.take(found)
                    moves[item.job.id] = found
                    break
            else:
                return None
        return moves


def picked(placement: Placement, ranks: Bools) -> Placement:
    """Some ranks of a placement."""
    milli, size = placement.share_milli, placement.share_bytes
    return Placement(
        placement.nodes[ranks],
        placement.bits[ranks],
        placement.groups[ranks],
        placement.cpu_milli[ranks],
        placement.memory_bytes[ranks],
        None if milli is None else milli[ranks],
        None if size is None else size[ranks],
    )


@contextmanager
def without(world: World, jobs: Sequence[Job]) -> Iterator[None]:
    """The books of queues and users as they would be without some jobs; the pool stays as it is."""
    for job in jobs:
        assert job.placement is not None
        world.count(job, job.placement, -1)
    try:
        yield
    finally:
        for job in jobs:
            assert job.placement is not None
            world.count(job, job.placement, 1)
