"""The accelerators of a pool one by one, and the exact books of those that tasks share.

A shared accelerator has two books: thousandths of the device and bytes of its memory.  Who asks by
share takes that share of both; who asks by memory takes the bytes and the whole thousandths in them.
All amounts are integers, so that giving back restores every one of them exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cluster import OK, NodeFacts

Ints = NDArray[np.int64]
Bits = NDArray[np.uint64]

WHOLE = 1000
"""Thousandths of one accelerator."""

MOST_ACCELERATORS = 64
"""Accelerators of one node that the pool can count: the width of a word."""

NONE = -1


@dataclass(frozen=True, slots=True)
class Layout:
    """How a kind of node is wired: groups of directly linked accelerators, sockets, weak devices."""

    linked: tuple[int, ...] = ()
    numa: tuple[int, ...] = ()
    weak: int = 0


class Devices:
    """Arrays of node × place: model, vendor, usable memory, wiring, and what is left of shared ones."""

    def __init__(self, facts: Sequence[NodeFacts], reserve_bytes: Mapping[str, int]) -> None:
        shape = len(facts), max((len(node.accelerators) for node in facts), default=0) or 1
        self.models = sorted({item.model for node in facts for item in node.accelerators})
        self.vendors = sorted({item.vendor for node in facts for item in node.accelerators})
        model_code = {name: number for number, name in enumerate(self.models)}
        vendor_code = {name: number for number, name in enumerate(self.vendors)}
        self.model = np.full(shape, NONE, dtype=np.int64)
        self.vendor = np.full(shape, NONE, dtype=np.int64)
        self.memory = np.zeros(shape, dtype=np.int64)
        for number, node in enumerate(facts):
            if len(node.accelerators) > MOST_ACCELERATORS:
                raise ValueError(f"{node.id} has more than {MOST_ACCELERATORS} accelerators")
            for place, item in enumerate(node.accelerators):
                self.model[number, place] = model_code[item.model]
                self.vendor[number, place] = vendor_code[item.vendor]
                usable = item.memory_bytes - reserve_bytes.get(item.model, 0)
                self.memory[number, place] = max(usable, 0)
        self.layouts = _layouts(facts)
        self.linked = _masks([layout.linked for layout in self.layouts])
        """Group × node: the masks of directly linked accelerators, 0 where a node has fewer groups."""
        self.milli_left = np.where(self.model >= 0, WHOLE, 0).astype(np.int64)
        self.bytes_left = self.memory.copy()
        self.shared = np.zeros(len(facts), dtype=np.uint64)
        self.lent = False
        """Whether a copy may use the same books."""
        self.plain = not any(layout.linked or layout.numa or layout.weak for layout in self.layouts)
        """Whether it makes no difference which accelerators of a node a task gets."""

    def bits_by_model(self) -> Bits:
        """For each model, each node's accelerators of it."""
        weights = np.left_shift(np.uint64(1), np.arange(self.model.shape[1], dtype=np.uint64))
        rows = [np.where(self.model == code, weights, 0).sum(axis=1) for code in range(len(self.models))]
        shape = len(self.models), len(self.model)
        return np.array(rows, dtype=np.uint64).reshape(shape)

    def part(self, node: int, place: int, milli: int, size: int) -> tuple[int, int]:
        """Thousandths and bytes that a part takes of one device, asked for by share or by memory."""
        return part_of(int(self.memory[node, place]), milli, size)

    def take(self, nodes: Ints, places: Ints, milli: Ints, size: Ints) -> None:
        """Books parts; `ValueError`, and nothing booked, where one is more than what is left."""
        self._own()
        where = nodes, places
        np.subtract.at(self.milli_left, where, milli)
        np.subtract.at(self.bytes_left, where, size)
        if (self.milli_left[where] < 0).any() or (self.bytes_left[where] < 0).any():
            np.add.at(self.milli_left, where, milli)
            np.add.at(self.bytes_left, where, size)
            raise ValueError("a part of the placement is more than what is left of its accelerator")
        np.bitwise_or.at(self.shared, nodes, _bit(places))

    def give(self, nodes: Ints, places: Ints, milli: Ints, size: Ints) -> Bits:
        """Gives parts back; for each, its bit where the accelerator is wholly free again, else 0."""
        self._own()
        where = nodes, places
        np.add.at(self.milli_left, where, milli)
        np.add.at(self.bytes_left, where, size)
        over = (self.milli_left[where] > WHOLE) | (self.bytes_left[where] > self.memory[where])
        if over.any():
            np.subtract.at(self.milli_left, where, milli)
            np.subtract.at(self.bytes_left, where, size)
            raise ValueError("the placement is not held")
        whole = (self.milli_left[where] == WHOLE) & (self.bytes_left[where] == self.memory[where])
        freed: Bits = np.where(whole, _bit(places), 0).astype(np.uint64)
        np.bitwise_and.at(self.shared, nodes, ~freed)
        return freed

    def copy(self) -> Devices:
        """The same devices with books of their own, which are copied when one of the two changes them."""
        self.lent = True
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.shared = self.shared.copy()
        return made

    def _own(self) -> None:
        if self.lent:
            self.milli_left, self.bytes_left = self.milli_left.copy(), self.bytes_left.copy()
            self.lent = False

    def meet(self, other: Devices, free: Bits, other_free: Bits) -> None:
        """Leaves of shared devices what both have; `free` are the wholly free ones of each.

        A device that is free here and shared there is shared, one that is held whole anywhere is held.
        """
        if self.milli_left is other.milli_left and self.bytes_left is other.bytes_left:
            self.shared &= other_free | other.shared  # no part came or went since one was copied of the other
            return
        self._own()
        self.shared = (self.shared | other.shared) & (free | self.shared) & (other_free | other.shared)
        np.minimum(self.milli_left, other.milli_left, out=self.milli_left)
        np.minimum(self.bytes_left, other.bytes_left, out=self.bytes_left)

    def same_books(self, other: Devices) -> bool:
        """Whether two agree on every part."""
        names: Any = ("milli_left", "bytes_left", "shared")
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)


def part_of(memory: int, milli: int, size: int) -> tuple[int, int]:
    """Thousandths and bytes of a device of `memory` usable bytes, for a share or for a size.

    Both are rounded down: whatever fits by the one that was asked for fits by the other too, so that
    23 times 2,000 MiB fit 46,068 MiB and 24 times do not.
    """
    if milli:
        return milli, memory // WHOLE * milli + memory % WHOLE * milli // WHOLE
    return (size * WHOLE // memory if memory else WHOLE + 1), size


def _bit(places: Ints) -> Bits:
    bits: Bits = np.left_shift(np.uint64(1), places.astype(np.uint64))
    return bits


def _masks(groups: Sequence[tuple[int, ...]]) -> Bits:
    rows = max((len(masks) for masks in groups), default=0)
    table = np.zeros((rows, len(groups)), dtype=np.uint64)
    for number, masks in enumerate(groups):
        table[: len(masks), number] = masks
    return table


def _layouts(facts: Sequence[NodeFacts]) -> list[Layout]:
    known: dict[Layout, Layout] = {}
    return [known.setdefault(layout, layout) for layout in map(_layout, facts)]


def _layout(node: NodeFacts) -> Layout:
    weak = sum(1 << place for place, item in enumerate(node.accelerators) if item.health != OK)
    return Layout(
        _groups([item.nvlink for item in node.accelerators]),
        _groups([item.numa for item in node.accelerators]),
        weak,
    )


def _groups(names: Sequence[int | None]) -> tuple[int, ...]:
    """The masks of groups; none where all places are in one."""
    masks: dict[int, int] = {}
    for place, name in enumerate(names):
        if name is not None:
            masks[name] = masks.get(name, 0) | 1 << place
    return tuple(masks[name] for name in sorted(masks)) if len(masks) > 1 else ()
