"""A gang of equal tasks with whole accelerators, compiled: the same choice as `switches` makes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from l2_aistation.core.demand import TaskDemand
from l2_aistation.core.pool import AcceleratorFacts, Bits, Ints, NodeFacts, Placement, Pool

from .compiled import loop
from .room import MOST_TASKS, Room
from .switches import ABLE, FREE, MOST_PAIRED_SPINES

ANYWHERE, SPINE, LEAF = 0, 1, 2


class Net(NamedTuple):
    """The switches: nodes are in their order, so that a leaf is a range of nodes."""

    start: Ints
    rack: Ints
    spine: Ints
    spines: int


class Need(NamedTuple):
    """What each task needs, and how many there are."""

    accelerators: int
    cpu: int
    memory: int
    one_per_node: bool
    tasks: int


def place_gang(
    pool: Pool, room: Room, free: Bits, group: TaskDemand, count: int, within: int
) -> Placement | None:
    """`count` tasks of a group on `free` accelerators, under one switch of the kind `within`."""
    need = Need(group.accelerators, group.cpu_milli, group.memory_bytes, group.one_per_node, count)
    net = Net(pool.leaf_start, pool.rack, pool.leaf_spine, len(pool.spine_names))
    caps, sums = _capacity(np.bitwise_count(free), room.usable, room.cpu, room.memory, need, net)
    nodes, bits = _gang(free, caps, sums, need, net, within)
    if not len(nodes):
        return None
    return Placement(
        nodes,
        bits,
        np.zeros(count, dtype=np.int64),
        np.full(count, group.cpu_milli, dtype=np.int64),
        np.full(count, group.memory_bytes, dtype=np.int64),
    )


def compile_all() -> None:
    """Compiles every loop, by placing a gang on a toy pool."""
    pool = Pool(
        NodeFacts(f"n{number}", 1, 1, (AcceleratorFacts(0, "", ""),), f"l{number % 2}") for number in range(4)
    )
    pool.up[:] = True
    for count in (1, 3):
        place_gang(pool, Room.of(pool), pool.free_bits, TaskDemand("", count, 1, 1, 1), count, ANYWHERE)


@loop
def _capacity(free: Any, usable: Any, cpu: Any, memory: Any, need: Need, net: Net) -> tuple[Ints, Ints]:
    """Tasks that each node could take, and each leaf."""
    caps = np.zeros(len(free), dtype=np.int64)
    sums = np.zeros(len(net.spine), dtype=np.int64)
    for leaf in range(len(sums)):
        for node in range(net.start[leaf], net.start[leaf + 1]):
            if not usable[node]:
                continue
            most: Any = MOST_TASKS
            if need.accelerators:
                most = min(most, np.int64(free[node]) // need.accelerators)
            if need.cpu:
                most = min(most, cpu[node] // need.cpu)
            if need.memory:
                most = min(most, memory[node] // need.memory)
            if need.one_per_node:
                most = min(most, 1)
            caps[node] = max(most, 0)
            sums[leaf] += caps[node]
    return caps, sums


@loop
def _gang(free: Bits, caps: Ints, sums: Ints, need: Need, net: Net, within: int) -> tuple[Ints, Bits]:
    chosen = np.zeros(len(caps), dtype=np.int64)
    best = -1
    for leaf in range(len(sums)):
        if sums[leaf] >= need.tasks and (best < 0 or sums[leaf] < sums[best]):
            best = leaf
    if best >= 0:
        _fill(free, caps, chosen, need.tasks, net, best)
    elif within != LEAF:
        rest = need.tasks
        for leaf in _leaves(sums, need.tasks, net, within):
            part = min(rest, sums[leaf])
            _fill(free, caps, chosen, part, net, leaf)
            rest -= part
    total = chosen.sum()
    nodes = np.zeros(total, dtype=np.int64)
    bits = np.zeros(total, dtype=np.uint64)
    rank = 0
    for node in range(len(chosen)):
        left = free[node]
        for _ in range(chosen[node]):
            after = left
            for _ in range(need.accelerators):
                after &= after - np.uint64(1)
            nodes[rank] = node
            bits[rank] = left ^ after
            left = after
            rank += 1
    return nodes, bits


@loop
def _fill(free: Bits, caps: Ints, chosen: Ints, count: int, net: Net, leaf: int) -> None:
    """As `switches.fill` on the nodes of one leaf."""
    first, end = net.start[leaf], net.start[leaf + 1]
    total, most = 0, 0
    for node in range(first, end):
        total += caps[node]
        most = max(most, caps[node])
    if total == count:
        chosen[first:end] = caps[first:end]
    elif most == 1:
        _one_each(caps, chosen, count, net, leaf)
    else:
        _best_fit(free, caps, chosen, count, first, end)


@loop
def _best_fit(free: Bits, caps: Ints, chosen: Ints, count: int, first: int, end: int) -> None:
    keys = np.empty(end - first, dtype=np.int64)
    idle = np.zeros(end - first, dtype=np.int64)
    for node in range(first, end):
        word = free[node]
        while word:
            word &= word - np.uint64(1)
            idle[node - first] += 1
        keys[node - first] = ((ABLE - 1 - caps[node]) * FREE + idle[node - first]) * len(caps) + node
    order = np.argsort(keys) + first
    rest, number = count, 0
    while caps[order[number]] < rest:
        chosen[order[number]] = caps[order[number]]
        rest -= caps[order[number]]
        number += 1
    best, least = -1, np.int64(0)
    for node in order[number:]:
        if caps[node] >= rest:
            key = (caps[node] * FREE + idle[node - first]) * len(caps) + node
            if best < 0 or key < least:
                best, least = node, key
    chosen[best] = rest


@loop
def _one_each(caps: Ints, chosen: Ints, count: int, net: Net, leaf: int) -> None:
    """One task a node: in the rack that fits best, else in rack order."""
    first, end = net.start[leaf], net.start[leaf + 1]
    best, best_size = -1, 0
    node = first
    while node < end:
        rack, begin, size = net.rack[node], node, 0
        while node < end and net.rack[node] == rack:
            size += caps[node]
            node += 1
        if size >= count and (best < 0 or size < best_size):
            best, best_size = begin, size
    node, rest = (best if best >= 0 else first), count
    while rest:
        if caps[node]:
            chosen[node] = 1
            rest -= 1
        node += 1


@loop
def _leaves(sums: Ints, count: int, net: Net, within: int) -> Ints:
    """As `switches.leaves_for`; empty where they do not hold it."""
    order = np.argsort(-sums * len(sums) + np.arange(len(sums)))
    totals = np.zeros(net.spines, dtype=np.int64)
    for leaf in range(len(sums)):
        totals[net.spine[leaf]] += sums[leaf]
    most, none = 0, np.zeros(0, dtype=np.int64)
    if within == SPINE:
        for spine in range(net.spines):
            size = _size(sums, order, count, net, spine, spine)
            if size and (most == 0 or size < most):
                most = size
    else:
        most = _size(sums, order, count, net, -1, -1)
    if most == 0:
        return none
    first, second = _spines(sums, order, totals, count, net, most, within)
    if first >= 0:
        return _fewest(sums, order, count, net, first, second)
    roomy = np.argsort((-sums * (totals.max() + 1) - totals[net.spine]) * len(sums) + np.arange(len(sums)))
    return _fewest(sums, roomy, count, net, -1, -1)


@loop
def _spines(
    sums: Ints, order: Ints, totals: Ints, count: int, net: Net, most: int, within: int
) -> tuple[int, int]:
    """The tightest spine, else the tightest pair, of which `most` leaves hold the gang; -1 without."""
    best, least = -1, np.int64(0)
    for spine in range(net.spines):
        tighter = totals[spine] >= count and (best < 0 or totals[spine] < least)
        if tighter and _top(sums, order, net, most, spine, spine) >= count:
            best, least = spine, totals[spine]
    used = (totals > 0).sum()
    if best >= 0 or within == SPINE or used <= 2 or used > MOST_PAIRED_SPINES:
        return best, best
    partner = -1
    for spine in range(net.spines):
        for other in range(spine + 1, net.spines):
            both = totals[spine] + totals[other]
            if both < count or totals[spine] == 0 or totals[other] == 0:
                continue
            if (best < 0 or both < least) and _top(sums, order, net, most, spine, other) >= count:
                best, partner, least = spine, other, both
    return best, partner


@loop
def _under(net: Net, leaf: int, first: int, second: int) -> bool:
    return first < 0 or net.spine[leaf] == first or net.spine[leaf] == second


@loop
def _top(sums: Ints, order: Ints, net: Net, most: int, first: int, second: int) -> int:
    """What the `most` roomiest leaves under some spines hold."""
    total, number = 0, 0
    for leaf in order:
        if number < most and _under(net, leaf, first, second):
            total += sums[leaf]
            number += 1
    return total


@loop
def _size(sums: Ints, order: Ints, count: int, net: Net, first: int, second: int) -> int:
    """How many leaves under some spines hold `count`, the roomiest first; 0 where all do not."""
    total, number = 0, 0
    for leaf in order:
        if _under(net, leaf, first, second):
            total += sums[leaf]
            number += 1
            if total >= count:
                return number
    return 0


@loop
def _fewest(sums: Ints, order: Ints, count: int, net: Net, first: int, second: int) -> Ints:
    """The first leaves of an order that hold `count`, the last of them the smallest that is enough."""
    picked = np.zeros(len(order), dtype=np.int64)
    number, rest, last = 0, count, -1
    for leaf in order:
        if not _under(net, leaf, first, second):
            continue
        if last < 0 and sums[leaf] < rest:
            picked[number] = leaf
            number += 1
            rest -= sums[leaf]
        elif sums[leaf] >= rest and (last < 0 or (sums[leaf], leaf) < (sums[last], last)):
            last = leaf
    picked[number] = last
    return picked[: number + 1]
