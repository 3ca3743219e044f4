"""Caps by accelerator model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from l2_aistation.core.amount import WHOLE, Amount
from l2_aistation.core.demand import Demand
from l2_aistation.core.guarantee import need_of
from l2_aistation.core.pool import Bools
from l2_aistation.core.refusal import Refusal
from l2_aistation.core.world import Job, World

from . import Rule

NOTHING = Amount()


class ModelCaps(Rule):
    """A queue and those below it hold no more of a model than their caps say.

    A job that names its model is refused above the cap; one that would take several is kept off the
    nodes of models that are used up.
    """

    name = "model-caps"

    def limits(self, world: World, queue: str) -> bool:
        """Where it or one above it has a cap for a model."""
        return any(world.queues[name].cap_models for name in world.lineage(queue) if name in world.queues)

    def refuses(self, world: World, job: Job, demand: Demand) -> Refusal | None:
        """Where the job names a model whose cap would be exceeded."""
        need = need_of(demand).models
        for name, model, left, cap in _caps(world, job) if need else ():
            if need.get(model, 0) > left:
                return Refusal(
                    "queue cap",
                    "queue {of} has room for {free} {unit} under its cap, the job needs {needed}",
                    needed=need[model] / WHOLE,
                    free=max(left, 0) / WHOLE,
                    unit=f"{model} accelerators",
                    of=name,
                    forever=need[model] > cap * WHOLE,
                )
        return None

    def where(self, world: World, job: Job) -> Sequence[Bools] | None:
        """All nodes but those of models that the job could take too many of."""
        open_to = job.demand.accelerator_milli - sum(need_of(job.demand).models.values())
        closed = [model for _, model, left, _ in _caps(world, job) if open_to > left]
        if not closed or not open_to:
            return None
        bits = world.pool.bits_of_any(closed)
        mask: Bools = np.equal(bits, 0) & world.pool.usable
        return [mask]


def _caps(world: World, job: Job) -> list[tuple[str, str, int, int]]:
    """Queue, model, thousandths left under the cap, and the cap."""
    rows = []
    for name in world.lineage(job.queue):
        queue = world.queues.get(name)
        if queue is not None and queue.cap_models:
            used = world.by_queue.get(name, NOTHING).models
            rows += [
                (name, model, cap * WHOLE - used.get(model, 0), cap)
                for model, cap in queue.cap_models.items()
            ]
    return rows
