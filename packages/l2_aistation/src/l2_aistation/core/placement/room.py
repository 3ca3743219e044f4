"""What is free while a gang is being placed, and how many tasks of a kind each node could take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from l2_aistation.core.demand import TaskDemand
from l2_aistation.core.devices import part_of
from l2_aistation.core.pool import WHOLE, Bits, Bools, Ints, Placement, Pool

MOST_TASKS = 1 << 20
"""Tasks that one node could take at most, whatever they need."""


@dataclass(slots=True)
class Parts:
    """What is left of shared accelerators: thousandths and bytes by node and place, and which are shared."""

    milli: Ints
    size: Ints
    shared: Bits


@dataclass(slots=True)
class Room:
    """What is free while a gang is being placed: the pool's arrays, or copies that shrink."""

    bits: Bits
    cpu: Ints
    memory: Ints
    usable: Bools
    parts: Parts | None = None
    """None: the pool's own books."""

    @classmethod
    def of(cls, pool: Pool, usable: Bools | None = None) -> Room:
        """The pool as it is."""
        return cls(pool.free_bits, pool.cpu_free, pool.memory_free, pool.usable if usable is None else usable)

    def shared(self, pool: Pool) -> Parts:
        """The books of shared accelerators."""
        devices = pool.devices
        return self.parts or Parts(devices.milli_left, devices.bytes_left, devices.shared)

    def within(self, pool: Pool, nodes: Bools) -> Room:
        """A copy that ends at some nodes."""
        books = self.shared(pool)
        parts = Parts(books.milli.copy(), books.size.copy(), books.shared.copy())
        return Room(self.bits.copy(), self.cpu.copy(), self.memory.copy(), self.usable & nodes, parts)

    def shrink(self, part: Placement) -> None:
        """Takes a group's share out of a copy."""
        np.subtract.at(self.cpu, part.nodes, part.cpu_milli)
        np.subtract.at(self.memory, part.nodes, part.memory_bytes)
        np.bitwise_and.at(self.bits, part.nodes, ~part.bits)
        ranks = part.parts
        if not len(ranks) or self.parts is None:
            return
        nodes, bits = part.nodes[ranks], part.bits[ranks]
        places = np.bitwise_count(bits - np.uint64(1)).astype(np.int64)
        np.subtract.at(self.parts.milli, (nodes, places), cast("Ints", part.share_milli)[ranks])
        np.subtract.at(self.parts.size, (nodes, places), cast("Ints", part.share_bytes)[ranks])
        np.bitwise_or.at(self.parts.shared, nodes, bits)


def capacity(
    pool: Pool, room: Room, group: TaskDemand, model: str | None = None, *, linked: bool = False
) -> Ints:
    """How many tasks of a group each node could take, of one model or of all that will do.

    With `linked`, only as many as get accelerators that are linked directly with each other.
    """
    most = np.where(room.usable, MOST_TASKS, 0).astype(np.int64)
    if group.part:
        np.minimum(most, part_tasks(pool, room, group, model).sum(axis=1), out=most)
    elif group.accelerators:
        bits = allowed(pool, room, group, model)
        if linked:
            bits = bits & pool.devices.linked
            each = np.bitwise_count(bits).astype(np.int64) // group.accelerators
            np.minimum(most, each.sum(axis=0), out=most)
        else:
            np.minimum(most, np.bitwise_count(bits).astype(np.int64) // group.accelerators, out=most)
    if group.cpu_milli:
        np.minimum(most, room.cpu // group.cpu_milli, out=most)
    if group.memory_bytes:
        np.minimum(most, room.memory // group.memory_bytes, out=most)
    if group.one_per_node:
        np.minimum(most, 1, out=most)
    return np.maximum(most, 0, out=most)


def allowed(pool: Pool, room: Room, group: TaskDemand, model: str | None = None) -> Bits:
    """The wholly free accelerators of each node that will do."""
    names = group.wanted if model is None else (model,)
    return room.bits & pool.bits_of_any(names) if names else room.bits


def part_tasks(pool: Pool, room: Room, group: TaskDemand, model: str | None = None) -> Ints:
    """For each node and place, how many tasks that share an accelerator it could take."""
    books, memory = room.shared(pool), pool.devices.memory
    names = group.wanted if model is None else (model,)
    open_bits = (room.bits | books.shared) & pool.bits_of_any(names)
    places = np.arange(memory.shape[1], dtype=np.uint64)
    is_open = (open_bits[:, None] >> places & np.uint64(1)).astype(np.bool_)
    if group.share_milli:
        # What fits by thousandths fits by bytes among shares; those who asked by memory may have left less.
        milli = np.full(memory.shape, group.share_milli, dtype=np.int64)
        size = memory // WHOLE * group.share_milli + memory % WHOLE * group.share_milli // WHOLE
    else:
        known = np.maximum(memory, 1)
        milli = np.where(memory > 0, group.share_bytes * WHOLE // known, WHOLE + 1)
        size = np.full(memory.shape, group.share_bytes, dtype=np.int64)
    by_milli = np.where(milli > 0, books.milli // np.maximum(milli, 1), MOST_TASKS)
    by_size = np.where(size > 0, books.size // np.maximum(size, 1), MOST_TASKS)
    tasks: Ints = np.where(is_open, np.minimum(by_milli, by_size), 0)
    return tasks


def part_amounts(pool: Pool, group: TaskDemand, node: int, place: int) -> tuple[int, int]:
    """Thousandths and bytes that one task of a group takes of one device."""
    return part_of(int(pool.devices.memory[node, place]), group.share_milli, group.share_bytes)


def domains(pool: Pool, level: str) -> Ints:
    """For each node, the number of its switch (rack, node itself, whole site) at a level."""
    if level == "node":
        return np.arange(len(pool), dtype=np.int64)
    if level == "site":
        return np.zeros(len(pool), dtype=np.int64)
    return {"rack": pool.rack, "leaf": pool.leaf, "spine": pool.spine}[level]
