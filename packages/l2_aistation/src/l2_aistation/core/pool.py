"""The cluster as facts, and the pool as arrays that placement works on.

A pool of N nodes keeps one array entry per node.  Free accelerators are bits of a 64-bit word, so
that booking a gang is a handful of array operations whatever its size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Bits = NDArray[np.uint64]

MOST_ACCELERATORS = 64
"""Accelerators of one node that the pool can count: the width of a word."""


@dataclass(frozen=True, slots=True)
class AcceleratorFacts:
    """One accelerator of a node."""

    index: int
    vendor: str
    model: str
    memory_bytes: int = 0
    numa: int | None = None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node as the pool takes it in.  `engine` names the backend that starts tasks there."""

    id: str
    cpu_cores: int
    memory_bytes: int = 0
    accelerators: tuple[AcceleratorFacts, ...] = ()
    leaf: str = "leaf"
    spine: str = "spine"
    rack: str = "rack"
    spare: bool = False
    address: str = "127.0.0.1"
    engine: str = "local"


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """A cluster: its name, its nodes and the digest of the document it came from."""

    name: str
    nodes: tuple[NodeFacts, ...]
    digest: str | None = None
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """What one rank holds on one node: thousandths of a core, bytes, accelerators."""

    rank: int
    task: str
    node: str
    cpu_milli: int
    memory_bytes: int
    accelerators: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where a gang is, as arrays over its ranks: node, accelerators, group of tasks, shares."""

    nodes: Ints
    bits: Bits
    groups: Ints
    cpu_milli: Ints
    memory_bytes: Ints

    def __len__(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True, slots=True)
class Totals:
    """Amounts over some nodes, in the units of `Slot`."""

    nodes: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    accelerators: int = 0


class Pool:
    """Nodes as arrays, in topology order: the order of indices is the order of ranks.

    `take` and `give` are exact inverses and check only that nothing is held twice.
    """

    def __init__(self, nodes: Iterable[NodeFacts]) -> None:
        self.facts = sorted(nodes, key=lambda node: (node.spine, node.leaf, node.rack, natural(node.id)))
        self.index = {node.id: number for number, node in enumerate(self.facts)}
        if len(self.index) != len(self.facts):
            raise ValueError("two nodes have one id")
        count = len(self.facts)
        self.spine, self.spine_names = _number([node.spine for node in self.facts])
        self.leaf, leaves = _number([(node.spine, node.leaf) for node in self.facts])
        self.rack, racks = _number([(node.spine, node.leaf, node.rack) for node in self.facts])
        self.leaf_names = [name for _, name in leaves]
        self.rack_names = [name for _, _, name in racks]
        self.leaf_spine = np.zeros(len(leaves), dtype=np.int64)
        self.leaf_spine[self.leaf] = self.spine
        self.spare = np.array([node.spare for node in self.facts], dtype=np.bool_)
        self.up = np.zeros(count, dtype=np.bool_)
        self.cordoned = np.zeros(count, dtype=np.bool_)
        self.cpu_total = np.array([node.cpu_cores * 1000 for node in self.facts], dtype=np.int64)
        self.memory_total = np.array([node.memory_bytes for node in self.facts], dtype=np.int64)
        self.models = sorted({item.model for node in self.facts for item in node.accelerators})
        self.model_bits = self._bits_by_model()
        self.all_bits = np.bitwise_or.reduce(self.model_bits, axis=0, initial=0).astype(np.uint64)
        self.free_bits = self.all_bits.copy()
        self.cpu_free = self.cpu_total.copy()
        self.memory_free = self.memory_total.copy()
        self.tasks = np.zeros(count, dtype=np.int64)
        self.grown = 0  # counts the changes after which something may fit that did not before

    def _bits_by_model(self) -> Bits:
        code = {model: number for number, model in enumerate(self.models)}
        bits = np.zeros((len(self.models), len(self.facts)), dtype=np.uint64)
        for number, node in enumerate(self.facts):
            if len(node.accelerators) > MOST_ACCELERATORS:
                raise ValueError(f"{node.id} has more than {MOST_ACCELERATORS} accelerators")
            for place, item in enumerate(node.accelerators):
                bits[code[item.model], number] |= np.uint64(1 << place)
        return bits

    def __len__(self) -> int:
        return len(self.facts)

    @property
    def usable(self) -> Bools:
        """Nodes that the queue may use: alive, not cordoned, no spares."""
        return self.up & ~self.cordoned & ~self.spare

    def set_up(self, node: str, *, value: bool) -> None:
        """Marks a node as alive or lost; what is held there stays held."""
        self.up[self.index[node]] = value
        self.grown += value

    def set_cordoned(self, node: str, *, value: bool) -> None:
        """Keeps new tasks off a node, or lets them on again."""
        self.cordoned[self.index[node]] = value
        self.grown += not value

    def set_spare(self, node: str, *, value: bool) -> None:
        """Keeps a node for replacing others, or gives it to the queue."""
        self.spare[self.index[node]] = value
        self.grown += not value

    def bits_of(self, model: str) -> Bits:
        """The accelerators of one model on each node, free or not."""
        if model not in self.models:
            return np.zeros(len(self), dtype=np.uint64)
        bits: Bits = self.model_bits[self.models.index(model)]
        return bits

    def take(self, placement: Placement) -> None:
        """Books a gang whole; `ValueError`, and nothing booked, where an accelerator is held."""
        nodes, bits = placement.nodes, placement.bits
        if not np.array_equal(self.free_bits[nodes] & bits, bits):
            raise ValueError("an accelerator of the placement is held already")
        np.bitwise_xor.at(self.free_bits, nodes, bits)
        if (self.free_bits[nodes] & bits).any():
            np.bitwise_xor.at(self.free_bits, nodes, bits)
            raise ValueError("the placement gives one accelerator to two ranks")
        np.subtract.at(self.cpu_free, nodes, placement.cpu_milli)
        np.subtract.at(self.memory_free, nodes, placement.memory_bytes)
        np.add.at(self.tasks, nodes, 1)

    def give(self, placement: Placement) -> None:
        """Gives a gang's share back; `ValueError`, and nothing changed, where it was not held."""
        nodes, bits = placement.nodes, placement.bits
        if (self.free_bits[nodes] & bits).any() or (self.tasks[nodes] < 1).any():
            raise ValueError("the placement is not held")
        np.bitwise_xor.at(self.free_bits, nodes, bits)
        np.add.at(self.cpu_free, nodes, placement.cpu_milli)
        np.add.at(self.memory_free, nodes, placement.memory_bytes)
        np.subtract.at(self.tasks, nodes, 1)
        self.grown += 1

    def slots(self, placement: Placement, tasks: Sequence[str]) -> list[Slot]:
        """A placement in words; `tasks` are the names of its groups."""
        rows = zip(
            placement.nodes.tolist(),
            placement.bits.tolist(),
            placement.groups.tolist(),
            placement.cpu_milli.tolist(),
            placement.memory_bytes.tolist(),
            strict=True,
        )
        return [
            Slot(rank, tasks[group], self.facts[node].id, cpu, memory, bit_places(bits))
            for rank, (node, bits, group, cpu, memory) in enumerate(rows)
        ]

    def placement(self, slots: Sequence[Slot], tasks: Sequence[str]) -> Placement:
        """The inverse of `slots`; `KeyError` where a node has left the pool."""
        group = {name: number for number, name in enumerate(tasks)}
        bits = [sum(1 << place for place in slot.accelerators) for slot in slots]
        return Placement(
            np.array([self.index[slot.node] for slot in slots], dtype=np.int64),
            np.array(bits, dtype=np.uint64),
            np.array([group[slot.task] for slot in slots], dtype=np.int64),
            np.array([slot.cpu_milli for slot in slots], dtype=np.int64),
            np.array([slot.memory_bytes for slot in slots], dtype=np.int64),
        )

    def rebuilt(self, held: Iterable[Placement]) -> Pool:
        """The pool made anew from its facts and what is held: the yardstick of the running one."""
        fresh = Pool(self.facts)
        fresh.up, fresh.cordoned, fresh.spare = self.up.copy(), self.cordoned.copy(), self.spare.copy()
        for placement in held:
            fresh.take(placement)
        return fresh

    def same_books(self, other: Pool) -> bool:
        """Whether two pools agree on every booked amount."""
        names = ("free_bits", "cpu_free", "memory_free", "tasks")
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)

    def totals(self, where: Bools | None = None, *, free: bool = False) -> Totals:
        """Amounts over the nodes of `where` (all by default): in all, or what is free."""
        mask = np.ones(len(self), dtype=np.bool_) if where is None else where
        bits = self.free_bits if free else self.all_bits
        cpu = self.cpu_free if free else self.cpu_total
        memory = self.memory_free if free else self.memory_total
        accelerators = int(np.bitwise_count(bits[mask]).sum())
        return Totals(int(mask.sum()), int(cpu[mask].sum()), int(memory[mask].sum()), accelerators)


def bit_places(bits: int) -> tuple[int, ...]:
    """The places of the ones of a word, lowest first."""
    return tuple(place for place in range(bits.bit_length()) if bits >> place & 1)


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """A sort key that puts node2 before node10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", text)
    return tuple((int(part), "") if part[0] in "0123456789" else (-1, part) for part in parts)


def _number(names: Sequence[T]) -> tuple[Ints, list[T]]:
    order: dict[T, int] = {}
    index = np.array([order.setdefault(name, len(order)) for name in names], dtype=np.int64)
    return index, list(order)
