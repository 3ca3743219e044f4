"""Integrals over virtual time: what was held, what was free and where, who waited."""

from __future__ import annotations

from collections import defaultdict
from math import ceil

import numpy as np

from l2_aistation.core.pool import Placement, Pool

from .results import Floats

POINTS = 600
"""Stretches of time in a series."""


class Meter:
    """Counts as the simulation goes on; amounts are accelerator-seconds."""

    def __init__(self, pool: Pool, start_s: float) -> None:
        self.pool = pool
        self.full = int(np.bitwise_count(pool.all_bits).sum())
        self.each = np.bitwise_count(pool.all_bits)
        self.largest_leaf = int(np.bincount(pool.leaf).max())
        self.now = self.start = start_s
        self.held = 0.0
        self.broken = 0
        self.stale = False
        self.held_s = self.broken_s = self.free_s = 0.0
        self.busy_held_s = self.busy_s = 0.0
        self.edges_s = self.leaf_edges_s = self.spine_edges_s = 0.0
        self.gangs = self.excess = 0
        self.steps: list[tuple[float, float, int]] = []
        self.edges: dict[str, tuple[float, int, int, int]] = {}
        self.rates: defaultdict[str, list[float]] = defaultdict(list)

    def advance(self, to_s: float, waiting: int) -> None:
        """Nothing changed from the last call until `to_s`, while so many jobs waited."""
        passed = to_s - self.now
        if passed <= 0:
            return
        if self.stale:
            free = np.bitwise_count(self.pool.free_bits)
            self.broken = int(free[free < self.each].sum())
            self.stale = False
        self.held_s += self.held * passed
        self.free_s += (self.full - self.held) * passed
        self.broken_s += self.broken * passed
        if waiting:
            self.busy_s += passed
            self.busy_held_s += self.held * passed
        self.steps.append((self.now, self.held, waiting))
        self.now = to_s

    def take(self, job: str, placement: Placement, accelerators: float) -> None:
        """A job starts."""
        self.held += accelerators
        self.stale = True
        if len(placement) > 1:
            self._gang(job, placement)

    def give(self, job: str, accelerators: float) -> None:
        """A job ends or is evicted."""
        self.held -= accelerators
        self.stale = True
        if job in self.edges:
            began, edges, leaves, spines = self.edges.pop(job)
            self.edges_s += edges * (self.now - began)
            self.leaf_edges_s += leaves * (self.now - began)
            self.spine_edges_s += spines * (self.now - began)

    def _gang(self, job: str, placement: Placement) -> None:
        """The ring over ranks: edges between nodes, between leaves, between spines."""
        nodes = placement.nodes
        after = np.roll(nodes, -1)
        pool = self.pool
        between = int((nodes != after).sum())
        if not between:
            return
        leaves = int((pool.leaf[nodes] != pool.leaf[after]).sum())
        spines = int((pool.spine[nodes] != pool.spine[after]).sum())
        self.edges[job] = self.now, between, leaves, spines
        self.gangs += 1
        used = len(np.unique(nodes))
        self.excess += len(np.unique(pool.leaf[nodes])) > ceil(used / self.largest_leaf)

    def series(self) -> dict[str, Floats]:
        """`held` and `waiting` as means over equal stretches of the whole time."""
        at = np.array([step[0] for step in self.steps] + [self.now], dtype=np.float64)
        grid = np.linspace(self.start, max(self.now, self.start + 1), POINTS + 1)
        found: dict[str, Floats] = {"at_s": grid[:-1] - self.start}
        for name, column in (("held", 1), ("waiting", 2)):
            values = np.array([step[column] for step in self.steps], dtype=np.float64)
            total = np.concatenate(([0.0], np.cumsum(values * np.diff(at))))
            found[name] = np.diff(np.interp(grid, at, total)) / np.diff(grid)
        return found
