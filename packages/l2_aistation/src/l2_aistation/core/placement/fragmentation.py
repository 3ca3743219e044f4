"""Fragments: idle accelerators that typical tasks cannot use, and where a task leaves the fewest.

The measure is that of "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent" (Weng et al., USENIX ATC 2023): over typical classes of demand, weighed by how often they
come, the idle thousandths of a node that the class could not use there.  A task goes to the node and
device where it raises that sum least.  As in the authors' simulator, nodes count as equal within a step
of a scale (their score is a sigmoid cut to whole numbers): then the one with the fewest idle accelerators
is taken, which packs better than the exact gradient.  All in integers, so that every way of computing it
agrees.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from l2_aistation.core.demand import Demand, TaskDemand
from l2_aistation.core.pool import WHOLE, Bools, Ints, Placement, Pool

from . import fragments
from .gang import one_task
from .kernels import compiled, fragment_loops
from .shares import part_placement

STEPS = 100
"""Steps of the scale."""

MOST_CLASSES = 32
"""Kinds of tasks that count as typical."""


@dataclass(frozen=True, slots=True)
class DemandClass:
    """A typical task: what it needs, and how often it comes (any integer scale).

    A part of one accelerator has `accelerators` 1 and `share_milli`; no `models` means any.
    """

    cpu_milli: int
    memory_bytes: int
    accelerators: int
    share_milli: int
    models: tuple[str, ...]
    weight: int


def typical_classes(demands: Iterable[tuple[Demand, int]]) -> tuple[DemandClass, ...]:
    """The most frequent kinds of task among demands, each with how often it comes, as weighed classes."""
    seen: dict[tuple[int, int, int, int, tuple[str, ...]], int] = {}
    for demand, times in demands:
        for group in demand.groups:
            key = (group.cpu_milli, group.memory_bytes, group.accelerators, group.share_milli, group.wanted)
            seen[key] = seen.get(key, 0) + group.count * times
    most = sorted(seen.items(), key=lambda item: (-item[1], item[0]))[:MOST_CLASSES]
    return tuple(DemandClass(*key, weight=weight) for key, weight in most)


@dataclass(slots=True)
class Column:
    """For one kind of task, by node: what it adds to the fragments, on which device, as of which booking."""

    need: fragments.Need
    added: Ints
    place: Ints
    seen: int = -1


class Fragmentation:
    """The score over a pool for some typical classes; it follows the pool's bookings by itself."""

    def __init__(self, pool: Pool, typical: Sequence[DemandClass]) -> None:
        self.pool = pool
        self.typical = tuple(typical)
        self.classes = fragments.Classes(
            np.array([item.cpu_milli for item in typical], dtype=np.int64),
            np.array([item.memory_bytes for item in typical], dtype=np.int64),
            np.array([item.accelerators for item in typical], dtype=np.int64),
            np.array([item.share_milli or WHOLE for item in typical], dtype=np.int64),
            np.array([self._mask(item.models) for item in typical], dtype=np.int64),
            np.array([item.weight for item in typical], dtype=np.int64),
        )
        self.idle = fragments.idle_milli(pool, np.arange(len(pool)))
        """Node × place: thousandths of each accelerator that nobody holds."""
        self.before = np.zeros(len(pool), dtype=np.int64)
        self.room = np.zeros(len(pool), dtype=np.int64)
        """By node: a sort key of its idle accelerators, then of its idle cores."""
        scale = WHOLE * self.weights
        ends = sorted(int(-log(step / (STEPS - step)) * scale) for step in range(1, STEPS))
        self.ends = np.array([*ends, fragments.NEVER - 1], dtype=np.int64)
        """The ends of the steps, in what a task adds to the fragments of a node."""
        self._columns: dict[tuple[object, ...], Column] = {}
        self._seen = -1

    def _mask(self, models: Sequence[str]) -> int:
        if not models:
            return -1
        return sum(1 << self.pool.models.index(model) for model in models if model in self.pool.models)

    def total(self) -> int:
        """The fragments of the whole pool: thousandths times weights, over `weights`."""
        self._refresh()
        return int(self.before.sum())

    @property
    def weights(self) -> int:
        """The sum of the classes' weights."""
        return int(self.classes.weight.sum())

    def place(self, group: TaskDemand, usable: Bools) -> Placement | None:
        """One task where it leaves the fewest fragments; None where it fits no node of `usable`.

        Nodes with a known fault come last.
        """
        column = self._column(group)
        node = None if self.pool.sound else self._best(column, usable & ~self.pool.weak)
        if node is None:
            node = self._best(column, usable)
        if node is None:
            return None
        if group.part:
            return part_placement(self.pool, group, node, int(column.place[node]))
        return one_task(self.pool, group, node)

    def _best(self, column: Column, usable: Bools) -> int | None:
        if compiled(len(self.pool)):
            found = fragment_loops().best(column.added, usable, self.ends, self.room)
            return None if found < 0 else int(found)
        added = np.where(usable, column.added, fragments.NEVER)
        least = int(added.min(initial=fragments.NEVER))
        if least == fragments.NEVER:
            return None
        end = int(self.ends[np.searchsorted(self.ends, least)])
        nodes = np.flatnonzero(added <= end)
        return int(nodes[np.argmin(self.room[nodes])])

    def _refresh(self) -> None:
        """Brings idle accelerators and fragments up to the pool's last booking."""
        if self._seen == self.pool.bookings:
            return
        pool = self.pool
        if compiled(len(pool)):
            state = fragments.State.whole(pool, self.idle, self.before)
            words = pool.free_bits, pool.devices.shared, pool.devices.milli_left
            fragment_loops().refresh(self.classes, state, words, (pool.changed, self._seen), self.room)
            self._seen = pool.bookings
            return
        nodes = np.flatnonzero(pool.changed > self._seen)
        self.idle[nodes] = fragments.idle_milli(pool, nodes)
        self.before[nodes] = fragments.amounts(
            self.classes,
            pool.cpu_free[nodes],
            pool.memory_free[nodes],
            self.idle[nodes],
            pool.devices.model[nodes],
        )
        self.room[nodes] = self.idle[nodes].sum(axis=1) * fragments.CORES + pool.cpu_free[nodes]
        self._seen = pool.bookings

    def _column(self, group: TaskDemand) -> Column:
        self._refresh()
        key = (
            group.cpu_milli,
            group.memory_bytes,
            group.accelerators,
            group.share_milli,
            group.share_bytes,
            group.wanted,
        )
        column = self._columns.get(key)
        if column is None:
            none = np.full(len(self.pool), fragments.NEVER, dtype=np.int64)
            need = fragments.Need(*key[:5], self._mask(group.wanted))
            column = self._columns[key] = Column(need, none, none.copy())
        if column.seen != self.pool.bookings:
            self._renew(column)
            column.seen = self.pool.bookings
        return column

    def _renew(self, column: Column) -> None:
        pool = self.pool
        if compiled(len(pool)):
            state = fragments.State.whole(pool, self.idle, self.before)
            since = pool.changed, column.seen
            fragment_loops().raised(self.classes, column.need, state, since, column.added, column.place)
            return
        nodes = np.flatnonzero(pool.changed > column.seen)
        state = fragments.State.of(pool, self.idle, self.before, nodes)
        column.added[nodes], column.place[nodes] = fragments.raised(self.classes, column.need, state)
