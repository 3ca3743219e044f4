"""Cells: which part of the topology is whose, worked out anew from what runs.

A queue that is guaranteed cells has, at any time, so many whole domains (nodes, racks, leaves, ...)
bound to it; nobody else has a job there that could not be asked to leave.  Binding is lazy (HiveD,
OSDI 2020): a domain is bound by what runs, not once and for all, so that a lost node or a busy leaf is
replaced by another one.  The books of a pool are enough to tell; nothing is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .amount import WHOLE
from .demand import LEVELS
from .placement import domains
from .pool import Bools, Ints
from .queue import Cells
from .world import World

NOBODY = -1


@dataclass(slots=True)
class Binding:
    """For each node, the number of the queue that it is bound to; and what could not be bound."""

    owner: Ints
    names: list[str] = field(default_factory=list)
    missing: dict[str, int] = field(default_factory=dict)

    def of(self, names: tuple[str, ...]) -> Bools:
        """The nodes that are bound to any of some queues."""
        numbers = [self.names.index(name) for name in names if name in self.names]
        mask: Bools = np.isin(self.owner, numbers)
        return mask

    @property
    def bound(self) -> Bools:
        """The nodes that are somebody's."""
        mask: Bools = self.owner != NOBODY
        return mask


def size_milli(world: World, cells: tuple[Cells, ...]) -> int:
    """Thousandths of accelerators in some cells, each as large as the largest domain of its level."""
    pool, total = world.pool, 0
    for cell in cells:
        bits = pool.all_bits if cell.model is None else pool.bits_of(cell.model)
        sizes = np.bincount(domains(pool, cell.level), weights=np.bitwise_count(bits))
        total += cell.count * int(sizes.max(initial=0)) * WHOLE
    return total


def bind(world: World) -> Binding:
    """Binds the coarsest cells first; each to where its queue runs most, then to where fewest others do."""
    queues = sorted((queue for queue in world.queues.values() if queue.cells), key=lambda queue: queue.name)
    binding = Binding(np.full(len(world.pool), NOBODY, dtype=np.int64), [queue.name for queue in queues])
    if not queues:
        return binding
    held, fixed, mine = _held(world, binding.names)
    wants = [
        (LEVELS.index(cell.level), number, cell)
        for number, queue in enumerate(queues)
        for cell in queue.cells
    ]
    for _, number, cell in sorted(wants, key=lambda want: (-want[0], want[1])):
        theirs = fixed - np.where(np.arange(len(binding.names))[:, None] == number, mine[1], 0).sum(axis=0)
        bound = _bind_one(world, binding, cell, number, mine[0][number], held - mine[0][number], theirs)
        if bound < cell.count:
            name = binding.names[number]
            binding.missing[name] = binding.missing.get(name, 0) + cell.count - bound
    return binding


def _held(world: World, names: list[str]) -> tuple[Ints, Ints, tuple[Ints, Ints]]:
    """Ranks by node: of all jobs, of those that cannot be asked to leave, and of each queue's own of both."""
    count = len(world.pool)
    held, fixed = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    own = np.zeros((len(names), count), dtype=np.int64)
    own_fixed = np.zeros((len(names), count), dtype=np.int64)
    for job in world.holders():
        if job.placement is None:
            continue
        nodes = job.placement.nodes
        owners = [names.index(name) for name in world.lineage(job.queue) if name in names]
        stays = not (job.preemptible and world.tree.preemptible(job.queue))
        np.add.at(held, nodes, 1)
        if stays:
            np.add.at(fixed, nodes, 1)
        for owner in owners:
            np.add.at(own[owner], nodes, 1)
            if stays:
                np.add.at(own_fixed[owner], nodes, 1)
    return held, fixed, (own, own_fixed)


def _bind_one(
    world: World, binding: Binding, cell: Cells, number: int, own: Ints, others: Ints, fixed: Ints
) -> int:
    """Binds domains of one level to a queue; how many could be."""
    pool = world.pool
    good = pool.usable & (binding.owner == NOBODY) & (fixed == 0)
    if cell.model is not None:
        good &= (pool.all_bits != 0) & (pool.bits_of(cell.model) == pool.all_bits)
    domain = domains(pool, cell.level)
    size = np.bincount(domain)
    whole = np.flatnonzero(np.bincount(domain, weights=good) == size)
    order = np.lexsort(
        (
            whole,
            -size[whole],
            np.bincount(domain, weights=others)[whole],
            -np.bincount(domain, weights=own)[whole],
        )
    )
    chosen = whole[order][: cell.count]
    binding.owner[np.isin(domain, chosen)] = number
    return len(chosen)
