"""The pool as arrays that placement works on.

A pool of N nodes keeps one array entry per node.  Free accelerators are bits of a 64-bit word, so
that booking a gang is a handful of array operations whatever its size; parts of accelerators have
books of their own (`devices`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .cluster import OK, AcceleratorFacts, ClusterFacts, NodeFacts
from .devices import MOST_ACCELERATORS, WHOLE, Bits, Devices, Ints, Layout
from .slots import Placement, Slot, bit_places, merged, parts_of

__all__ = [
    "MOST_ACCELERATORS",
    "OK",
    "WHOLE",
    "AcceleratorFacts",
    "Bits",
    "Bools",
    "ClusterFacts",
    "Ints",
    "NodeFacts",
    "Placement",
    "Pool",
    "Slot",
    "Totals",
    "bit_places",
    "merged",
    "natural",
]

T = TypeVar("T")
Bools = NDArray[np.bool_]

BOOKS = ("free_bits", "cpu_free", "memory_free", "tasks")
MARKS = ("up", "cordoned", "spare", "weak", "weak_rails", "weak_leaf")


@dataclass(frozen=True, slots=True)
class Totals:
    """Amounts over some nodes, in the units of `Slot`."""

    nodes: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    accelerators: int = 0


class Pool:
    """Nodes as arrays, in topology order: the order of indices is the order of ranks.

    `take` and `give` are exact inverses and check only that nothing is held twice.  `reserve_bytes`
    is memory of each accelerator of a model that parts cannot have (the driver's own).
    """

    def __init__(
        self,
        nodes: Iterable[NodeFacts],
        reserve_bytes: Mapping[str, int] | None = None,
        weak_leaves: Iterable[str] = (),
    ) -> None:
        self.facts = sorted(nodes, key=lambda node: (node.spine, node.leaf, node.rack, natural(node.id)))
        self.index = {node.id: number for number, node in enumerate(self.facts)}
        if len(self.index) != len(self.facts):
            raise ValueError("two nodes have one id")
        self.reserve_bytes = dict(reserve_bytes or {})
        count = len(self.facts)
        self.spine, self.spine_names = _number([node.spine for node in self.facts])
        self.leaf, leaves = _number([(node.spine, node.leaf) for node in self.facts])
        self.rack, racks = _number([(node.spine, node.leaf, node.rack) for node in self.facts])
        self.leaf_names = [name for _, name in leaves]
        self.rack_names = [name for _, _, name in racks]
        self.leaf_spine = np.zeros(len(leaves), dtype=np.int64)
        self.leaf_spine[self.leaf] = self.spine
        self.leaf_start = np.searchsorted(self.leaf, np.arange(len(leaves) + 1))
        """Where the nodes of each leaf begin, and behind the last one the number of nodes."""
        self.spare = np.array([node.spare for node in self.facts], dtype=np.bool_)
        self.up = np.zeros(count, dtype=np.bool_)
        self.cordoned = np.zeros(count, dtype=np.bool_)
        self.cpu_total = np.array([node.cpu_cores * 1000 for node in self.facts], dtype=np.int64)
        self.memory_total = np.array([node.memory_bytes for node in self.facts], dtype=np.int64)
        self.devices = Devices(self.facts, self.reserve_bytes)
        self.models = self.devices.models
        self.model_bits = self.devices.bits_by_model()
        self.all_bits: Bits = np.bitwise_or.reduce(self.model_bits, axis=0, initial=0).astype(np.uint64)
        self.free_bits = self.all_bits.copy()
        self.cpu_free = self.cpu_total.copy()
        self.memory_free = self.memory_total.copy()
        self.tasks = np.zeros(count, dtype=np.int64)
        self.weak = np.array([node.health != OK for node in self.facts], dtype=np.bool_)
        """Nodes that are avoided."""
        self.weak_rails = np.array([len(node.weak_rails) for node in self.facts], dtype=np.int64)
        names = set(weak_leaves)
        self.weak_leaf = np.array([name in names for name in self.leaf_names], dtype=np.bool_)
        """Leaves whose links upwards are degraded."""
        self.sound = True
        """Whether nothing of all this is degraded."""
        self.look()
        self.cached: dict[str, Bools] = {}
        """By the digest of a data set: the nodes that have it."""
        self.changed = np.zeros(count, dtype=np.int64)
        """For each node, the number of the booking that last changed its books."""
        self.bookings = 0
        self.grown = 0  # counts the changes after which something may fit that did not before

    def __len__(self) -> int:
        return len(self.facts)

    @property
    def usable(self) -> Bools:
        """Nodes that the queue may use: alive, not cordoned, no spares."""
        return self.up & ~self.cordoned & ~self.spare

    @property
    def layouts(self) -> list[Layout]:
        """How each node is wired inside."""
        return self.devices.layouts

    def set_up(self, node: str, *, value: bool) -> None:
        """Marks a node as alive or lost; what is held there stays held."""
        self.up[self.index[node]] = value
        self.grown += 1  # what was said of a demand without room holds no longer, either way

    def set_cordoned(self, node: str, *, value: bool) -> None:
        """Keeps new tasks off a node, or lets them on again."""
        self.cordoned[self.index[node]] = value
        self.grown += 1

    def set_spare(self, node: str, *, value: bool) -> None:
        """Keeps a node for replacing others, or gives it to the queue."""
        self.spare[self.index[node]] = value
        self.grown += 1

    def set_health(self, node: str, *, ok: bool, weak_rails: int = 0) -> None:
        """Says whether a node is well and how many of its rails are degraded: others go first."""
        number = self.index[node]
        self.weak[number] = not ok
        self.weak_rails[number] = weak_rails
        self.look()

    def set_link(self, leaf: str, *, ok: bool) -> None:
        """Says whether the links of a leaf upwards are well."""
        self.weak_leaf[[number for number, name in enumerate(self.leaf_names) if name == leaf]] = not ok
        self.look()

    def look(self) -> None:
        """To be called when marks of health were set as arrays."""
        self.sound = not (self.weak.any() or self.weak_rails.any() or self.weak_leaf.any())

    def set_cached(self, data: str, nodes: Iterable[str]) -> None:
        """Says which nodes have a data set (its digest) on their own disks."""
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[[self.index[node] for node in nodes if node in self.index]] = True
        self.cached[data] = mask
        if not mask.any():
            del self.cached[data]

    def set_cached_on(self, node: str, data: Collection[str]) -> bool:
        """Says which data sets a node has; whether that is news."""
        place, news = self.index[node], False
        for name in {*self.cached, *data}:
            mask = self.cached.get(name)
            has = name in data
            if mask is None:
                mask = np.zeros(len(self), dtype=np.bool_)
            elif bool(mask[place]) is has:
                continue
            mask, news = mask.copy(), True
            mask[place] = has
            self.cached[name] = mask
            if not mask.any():
                del self.cached[name]
        return news

    def bits_of(self, model: str) -> Bits:
        """The accelerators of one model on each node, free or not."""
        if model not in self.models:
            return np.zeros(len(self), dtype=np.uint64)
        bits: Bits = self.model_bits[self.models.index(model)]
        return bits

    def bits_of_any(self, models: Sequence[str]) -> Bits:
        """The accelerators of any of some models on each node; of all models where none is named."""
        if not models:
            return self.all_bits
        found = np.bitwise_or.reduce([self.bits_of(model) for model in models])
        return np.asarray(found, dtype=np.uint64)

    def take(self, placement: Placement) -> None:
        """Books a gang whole; `ValueError`, and nothing booked, where an accelerator is held."""
        nodes, bits = placement.nodes, placement.bits
        if len(nodes) == 1 and placement.share_milli is None:
            self._take_one(placement)
            return
        parts = placement.parts if placement.share_milli is not None else None
        if parts is not None and len(parts):
            bits = bits.copy()
            bits[parts] = 0
        self._take_whole(nodes, bits)
        if parts is not None and len(parts):
            try:
                self._take_parts(placement, parts)
            except ValueError:
                np.bitwise_xor.at(self.free_bits, nodes, bits)
                raise
        np.subtract.at(self.cpu_free, nodes, placement.cpu_milli)
        np.subtract.at(self.memory_free, nodes, placement.memory_bytes)
        np.add.at(self.tasks, nodes, 1)
        self._note(nodes)

    def _take_one(self, placement: Placement) -> None:
        node, word = int(placement.nodes[0]), placement.bits[0]
        free = self.free_bits[node]
        if free & word != word:
            raise ValueError("an accelerator of the placement is held already")
        self.free_bits[node] = free ^ word
        self.cpu_free[node] -= placement.cpu_milli[0]
        self.memory_free[node] -= placement.memory_bytes[0]
        self.tasks[node] += 1
        self.bookings += 1
        self.changed[node] = self.bookings

    def _take_whole(self, nodes: Ints, bits: Bits) -> None:
        if not np.array_equal(self.free_bits[nodes] & bits, bits):
            raise ValueError("an accelerator of the placement is held already")
        np.bitwise_xor.at(self.free_bits, nodes, bits)
        if (self.free_bits[nodes] & bits).any():
            np.bitwise_xor.at(self.free_bits, nodes, bits)
            raise ValueError("the placement gives one accelerator to two ranks")

    def _take_parts(self, placement: Placement, parts: Ints) -> None:
        nodes, bits, places, milli, size = parts_of(placement, parts)
        devices = self.devices
        if ((self.free_bits[nodes] | devices.shared[nodes]) & bits != bits).any():
            raise ValueError("an accelerator of the placement is held already")
        devices.take(nodes, places, milli, size)
        np.bitwise_and.at(self.free_bits, nodes, ~bits)

    def give(self, placement: Placement) -> None:
        """Gives a gang's share back; `ValueError`, and nothing changed, where it was not held."""
        nodes, bits = placement.nodes, placement.bits
        parts = placement.parts if placement.share_milli is not None else None
        if (self.free_bits[nodes] & bits).any() or (self.tasks[nodes] < 1).any():
            raise ValueError("the placement is not held")
        if parts is not None and len(parts):
            bits = bits.copy()
            bits[parts] = 0
            self._give_parts(placement, parts)
        np.bitwise_xor.at(self.free_bits, nodes, bits)
        np.add.at(self.cpu_free, nodes, placement.cpu_milli)
        np.add.at(self.memory_free, nodes, placement.memory_bytes)
        np.subtract.at(self.tasks, nodes, 1)
        self._note(nodes)
        self.grown += 1

    def _give_parts(self, placement: Placement, parts: Ints) -> None:
        nodes, bits, places, milli, size = parts_of(placement, parts)
        if (self.devices.shared[nodes] & bits != bits).any():
            raise ValueError("the placement is not held")
        np.bitwise_or.at(self.free_bits, nodes, self.devices.give(nodes, places, milli, size))

    def _note(self, nodes: Ints) -> None:
        self.bookings += 1
        self.changed[nodes] = self.bookings

    def slots(self, placement: Placement, tasks: Sequence[str]) -> list[Slot]:
        """A placement in words; `tasks` are the names of its groups."""
        none = np.zeros(len(placement), dtype=np.int64)
        rows = zip(
            placement.nodes.tolist(),
            placement.bits.tolist(),
            placement.groups.tolist(),
            placement.cpu_milli.tolist(),
            placement.memory_bytes.tolist(),
            (none if placement.share_milli is None else placement.share_milli).tolist(),
            (none if placement.share_bytes is None else placement.share_bytes).tolist(),
            strict=True,
        )
        return [
            Slot(rank, tasks[group], self.facts[node].id, cpu, memory, bit_places(bits), milli, size)
            for rank, (node, bits, group, cpu, memory, milli, size) in enumerate(rows)
        ]

    def placement(self, slots: Sequence[Slot], tasks: Sequence[str]) -> Placement:
        """The inverse of `slots`; `KeyError` where a node has left the pool."""
        group = {name: number for number, name in enumerate(tasks)}
        bits = [sum(1 << place for place in slot.accelerators) for slot in slots]
        shares = any(slot.accelerator_milli or slot.accelerator_bytes for slot in slots)
        milli = np.array([slot.accelerator_milli for slot in slots], dtype=np.int64) if shares else None
        size = np.array([slot.accelerator_bytes for slot in slots], dtype=np.int64) if shares else None
        return Placement(
            np.array([self.index[slot.node] for slot in slots], dtype=np.int64),
            np.array(bits, dtype=np.uint64),
            np.array([group[slot.task] for slot in slots], dtype=np.int64),
            np.array([slot.cpu_milli for slot in slots], dtype=np.int64),
            np.array([slot.memory_bytes for slot in slots], dtype=np.int64),
            milli,
            size,
        )

    def copy(self) -> Pool:
        """The same nodes with books and marks of their own; facts and topology are shared."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        for name in (*BOOKS, *MARKS, "changed"):
            made.__dict__[name] = self.__dict__[name].copy()
        made.devices = self.devices.copy()
        made.cached = dict(self.cached)
        return made

    def meet(self, other: Pool) -> None:
        """Leaves free only what both pools have free: what a job could hold from one time to another."""
        self.devices.meet(other.devices, self.free_bits, other.free_bits)
        self.free_bits &= other.free_bits
        np.minimum(self.cpu_free, other.cpu_free, out=self.cpu_free)
        np.minimum(self.memory_free, other.memory_free, out=self.memory_free)
        self.bookings += 1
        self.changed[:] = self.bookings

    def rebuilt(self, held: Iterable[Placement]) -> Pool:
        """The pool made anew from its facts and what is held: the yardstick of the running one."""
        fresh = Pool(self.facts, self.reserve_bytes)
        for name in MARKS:
            setattr(fresh, name, getattr(self, name).copy())
        fresh.cached, fresh.sound = dict(self.cached), self.sound
        for placement in held:
            fresh.take(placement)
        return fresh

    def same_books(self, other: Pool) -> bool:
        """Whether two pools agree on every booked amount."""
        same = all(np.array_equal(getattr(self, name), getattr(other, name)) for name in BOOKS)
        return same and self.devices.same_books(other.devices)

    def totals(self, where: Bools | None = None, *, free: bool = False) -> Totals:
        """Amounts over the nodes of `where` (all by default): in all, or what is wholly free."""
        mask = np.ones(len(self), dtype=np.bool_) if where is None else where
        bits = self.free_bits if free else self.all_bits
        cpu = self.cpu_free if free else self.cpu_total
        memory = self.memory_free if free else self.memory_total
        accelerators = int(np.bitwise_count(bits[mask]).sum())
        return Totals(int(mask.sum()), int(cpu[mask].sum()), int(memory[mask].sum()), accelerators)


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """A sort key that puts node2 before node10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", text)
    return tuple((int(part), "") if part[0] in "0123456789" else (-1, part) for part in parts)


def _number(names: Sequence[T]) -> tuple[Ints, list[T]]:
    order: dict[T, int] = {}
    index = np.array([order.setdefault(name, len(order)) for name in names], dtype=np.int64)
    return index, list(order)
