"""Data that a node has already: worth waiting for, but not for long."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from l2_aistation.core.pool import Bools
from l2_aistation.core.world import Job, World

from . import Rule

WAIT_S = 60.0
"""How long after its submission a job waits for nodes that have its data sets."""


class CachedData(Rule):
    """A job goes to nodes that have all of its data sets, for some time after submission only there.

    Waiting for locality pays if it is bounded (delay scheduling, Zaharia et al., EuroSys 2010).  Where too
    few nodes have the data for the gang ever to fit them, nobody waits.
    """

    name = "cached-data"

    def __init__(self, wait_s: float = WAIT_S) -> None:
        self.wait_s = wait_s

    def limits(self, world: World, queue: str) -> bool:  # noqa: ARG002
        """Jobs without data are not."""
        return False

    def where(self, world: World, job: Job) -> Sequence[Bools] | None:
        """The nodes with the data, and after the wait all others as well."""
        data = job.demand.data
        if not data or not world.pool.cached:
            return None
        pool = world.pool
        none = np.zeros(len(pool), dtype=np.bool_)
        having: Bools = np.logical_and.reduce([pool.cached.get(name, none) for name in data]) & pool.usable
        if not having.any():
            return None
        now = world.decay.at
        waited = now is None or now - job.submitted_at >= self.wait_s
        return [having, pool.usable] if waited or not _holds(world, job, having) else [having]


def _holds(world: World, job: Job, nodes: Bools) -> bool:
    """Whether the gang would fit these nodes if they were empty, by its accelerators and cores."""
    totals = world.pool.totals(nodes)
    demand = job.demand
    return demand.accelerators <= totals.accelerators and demand.cpu_milli <= totals.cpu_milli
