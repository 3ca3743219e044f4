"""Guarantees in units of the topology: one tenant's fragments cannot break another's cells."""

from __future__ import annotations

from collections.abc import Sequence

from l2_aistation.core.cells import Binding, bind
from l2_aistation.core.pool import Bools
from l2_aistation.core.world import Job, World

from . import Request, Right, Rule


class CellGuarantee(Rule):
    """Who has cells gets them whole when it asks for them; others are guests there.

    Jobs go into the cells of their own queue first, then to where no cell is bound; only those that
    may be asked to leave go into a foreign cell.  Its owner asks them to leave whatever their own
    queue is guaranteed by count: a count can be kept anywhere.  What runs in its own cell is safe.
    """

    name = "cells"
    asks_in = ("reclaim",)

    def __init__(self) -> None:
        self._binding: Binding | None = None
        self._turn: object = None

    def binding(self, world: World) -> Binding | None:
        """The cells of this moment; None where no queue has any."""
        if not world.tree.celled:
            return None
        if self._binding is None or self._turn is not world.turn:
            # Within a cycle it stays right: who is booked meanwhile keeps off, or may be asked to leave.
            self._binding, self._turn = bind(world), world.turn
        return self._binding

    def limits(self, world: World, queue: str) -> bool:  # noqa: ARG002 (the protocol's words)
        """Whether any queue has cells."""
        return bool(world.tree.celled)

    def where(self, world: World, job: Job) -> Sequence[Bools] | None:
        """Own cells, then what is nobody's, then foreign cells as a guest."""
        binding = self.binding(world)
        if binding is None:
            return None
        usable = world.pool.usable
        own = binding.of(world.lineage(job.queue)) & usable
        masks = [own] if own.any() else []
        masks.append(usable & (own | ~binding.bound))
        if job.preemptible and world.tree.preemptible(job.queue):
            masks.append(usable)
        return masks

    def rights(self, world: World, request: Request) -> Right | None:
        """Guests in the cells of the job's queue."""
        binding = self.binding(world) if request.action == "reclaim" else None
        if binding is None:
            return None
        line = world.lineage(request.job.queue)
        own = binding.of(line)
        if not own.any():
            return None
        owners = {name for name in line if name in binding.names}
        guests = [job for job in world.ledger.on(own) if not owners & set(world.lineage(job.queue))]
        return Right(guests, where=own, past=frozenset({"quota"})) if guests else None

    def protects(self, world: World, victim: Job, claimant: Job, now: float) -> bool:  # noqa: ARG002
        """Whether a job is wholly in cells of its own queue, and the claimant's queue has no part in them."""
        binding = self.binding(world)
        if binding is None or victim.placement is None:
            return False
        line = tuple(name for name in world.lineage(victim.queue) if name in binding.names)
        if not line or set(line) & set(world.lineage(claimant.queue)):
            return False
        return bool(binding.of(line)[victim.placement.nodes].all())
