"""Where a gang goes: fewest leaves, then fewest spines, then the place that it fits best.

`place` answers with a whole placement or None; it books nothing.  A gang that fits under one switch
goes under the fullest switch that still holds it, so that whole leaves stay whole for large gangs.
Ranks follow the topology order of the nodes, so a ring over ranks enters and leaves each switch once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from .demand import LEVELS, Demand, TaskDemand
from .pool import Bits, Bools, Ints, Placement, Pool

MOST_PAIRED_SPINES = 16
"""Up to this many spines, each pair of them is tried when one spine is not enough."""

MOST_DOMAINS = 64
"""How many switches a gang of unlike groups is tried under, at each level."""

MOST_TASKS = 1 << 20
"""Tasks that one node could take at most, whatever they need."""

NOTHING = np.int64(np.iinfo(np.int64).max)
LEAF = LEVELS.index("leaf")


@dataclass(slots=True)
class Room:
    """What is free while a gang is being placed: the pool's arrays, or copies that shrink."""

    bits: Bits
    cpu: Ints
    memory: Ints
    usable: Bools

    def within(self, nodes: Bools) -> Room:
        """A copy that ends at some nodes."""
        return Room(self.bits.copy(), self.cpu.copy(), self.memory.copy(), self.usable & nodes)

    def shrink(self, part: Placement) -> None:
        """Takes a group's share out."""
        np.bitwise_xor.at(self.bits, part.nodes, part.bits)
        np.subtract.at(self.cpu, part.nodes, part.cpu_milli)
        np.subtract.at(self.memory, part.nodes, part.memory_bytes)


def place(pool: Pool, demand: Demand, usable: Bools | None = None) -> Placement | None:
    """The gang at the largest size that fits, from `least` up; None where even that does not."""
    room = Room(pool.free_bits, pool.cpu_free, pool.memory_free, pool.usable if usable is None else usable)
    if len(demand.groups) > 1:
        return _place_unlike(pool, room, demand)
    group = demand.groups[0]
    best = _place_group(pool, room, group, group.count, demand)
    low, high = demand.least, 0 if best is not None else group.count - 1
    while low <= high:  # what fits at n fits at n - 1
        middle = (low + high + 1) // 2
        found = _place_group(pool, room, group, middle, demand)
        if found is None:
            high = middle - 1
        else:
            best, low = found, middle + 1
    return best


def capacity(pool: Pool, room: Room, group: TaskDemand, model: str | None = None) -> Ints:
    """How many tasks of a group each node could take."""
    most = np.where(room.usable, MOST_TASKS, 0).astype(np.int64)
    if group.accelerators:
        wanted = group.model if model is None else model
        bits = room.bits if wanted is None else room.bits & pool.bits_of(wanted)
        np.minimum(most, np.bitwise_count(bits).astype(np.int64) // group.accelerators, out=most)
    if group.cpu_milli:
        np.minimum(most, room.cpu // group.cpu_milli, out=most)
    if group.memory_bytes:
        np.minimum(most, room.memory // group.memory_bytes, out=most)
    if group.one_per_node:
        np.minimum(most, 1, out=most)
    return np.maximum(most, 0, out=most)


def domains(pool: Pool, level: str) -> Ints:
    """For each node, the number of its switch (rack, node itself, whole site) at a level."""
    if level == "node":
        return np.arange(len(pool), dtype=np.int64)
    if level == "site":
        return np.zeros(len(pool), dtype=np.int64)
    return {"rack": pool.rack, "leaf": pool.leaf, "spine": pool.spine}[level]


def _models(pool: Pool, group: TaskDemand) -> list[str | None]:
    """Models to try: a gang of like accelerators runs at its own pace, a mixed one at the slowest's."""
    if group.model is not None or not group.accelerators or len(pool.models) < 2:
        return [group.model]
    return [*pool.models, None]


def _place_group(pool: Pool, room: Room, group: TaskDemand, count: int, demand: Demand) -> Placement | None:
    for model in _models(pool, group):
        caps = capacity(pool, room, group, model)
        chosen = choose(pool, room, caps, count, demand)
        if chosen is not None:
            return _ranks(pool, room, group, chosen, model)
    return None


def _levels(demand: Demand) -> range:
    """The levels to try, from the preferred one up to the required one."""
    coarsest = LEVELS.index(demand.required or "site")
    finest = LEVELS.index(demand.preferred) if demand.preferred else LEAF
    return range(min(finest, coarsest), coarsest + 1)


def choose(pool: Pool, room: Room, caps: Ints, count: int, demand: Demand) -> Ints | None:
    """How many of `count` equal tasks each node takes, given what each could; None where they do not fit."""
    if int(caps.sum()) < count:
        return None
    levels = _levels(demand)
    for number in levels:
        if number > LEAF and levels.start <= LEAF and levels.stop - 1 > LEAF:
            # No leaf holds it: now fewest leaves decide, over any spines that `required` allows.
            return _over_leaves(pool, room, caps, count, LEVELS[levels.stop - 1])
        domain = domains(pool, LEVELS[number])
        sums = np.bincount(domain, weights=caps).astype(np.int64)
        fits = np.flatnonzero(sums >= count)
        if not fits.size:
            continue
        if number <= LEAF:
            best = fits[np.argmin(sums[fits])]
            return _fill(pool, room, np.where(domain == best, caps, 0), count)
        return _over_leaves(pool, room, caps, count, LEVELS[number])
    return None


def _over_leaves(pool: Pool, room: Room, caps: Ints, count: int, within: str) -> Ints | None:
    """Fewest leaves, then fewest spines, then least left over, inside one switch of level `within`."""
    sums = np.bincount(pool.leaf, weights=caps, minlength=len(pool.leaf_names)).astype(np.int64)
    best: tuple[tuple[int, int, int], Ints] | None = None
    for leaves in _leaf_sets(pool, sums, count, within):
        picked = _fewest(sums, leaves, count)
        spines = len(set(pool.leaf_spine[picked].tolist()))
        rank = (len(picked), spines, int(sums[leaves].sum()) - count)
        if best is None or rank < best[0]:
            best = rank, picked
    if best is None:
        return None
    chosen = np.zeros(len(pool), dtype=np.int64)
    rest = count
    for leaf in best[1]:  # the last one takes what is left
        part = _fill(pool, room, np.where(pool.leaf == leaf, caps, 0), min(rest, int(sums[leaf])))
        chosen += part
        rest -= int(part.sum())
    return chosen


def _leaf_sets(pool: Pool, sums: Ints, count: int, within: str) -> Iterable[Ints]:
    """Sets of leaves to choose from: each spine that is enough, each pair of spines, all leaves."""
    spine_sums = np.bincount(pool.leaf_spine, weights=sums, minlength=len(pool.spine_names))
    for spine in np.flatnonzero(spine_sums >= count):
        yield np.flatnonzero(pool.leaf_spine == spine)
    if within == "spine":
        return
    spines = np.flatnonzero(spine_sums)
    if 2 < len(spines) <= MOST_PAIRED_SPINES:
        for first, second in combinations(spines, 2):
            if spine_sums[first] + spine_sums[second] >= count:
                yield np.flatnonzero((pool.leaf_spine == first) | (pool.leaf_spine == second))
    # Among leaves of one size, those under the roomiest spines first: fewer spines in the end.
    yield np.lexsort((-spine_sums[pool.leaf_spine], -sums))


def _fewest(sums: Ints, leaves: Ints, count: int) -> Ints:
    """The fewest of `leaves` that hold `count`: the largest, and last the smallest that is enough."""
    order = leaves[np.argsort(-sums[leaves], kind="stable")]
    totals = np.cumsum(sums[order])
    needed = int(np.searchsorted(totals, count)) + 1
    rest = count - (int(totals[needed - 2]) if needed > 1 else 0)
    tail = order[needed - 1 :]
    last = tail[np.argmin(np.where(sums[tail] >= rest, sums[tail], NOTHING))]
    return np.append(order[: needed - 1], last)


def _fill(pool: Pool, room: Room, caps: Ints, count: int) -> Ints:
    """`count` tasks on the fewest of some nodes, the last one a best fit; broken nodes before whole ones."""
    total = int(caps.sum())
    if total == count:
        return caps
    nodes = np.flatnonzero(caps)
    able = caps[nodes]
    if int(able.max()) == 1:
        # One task a node: keep racks whole by taking the rack that fits best, else in rack order.
        return _spread(pool, nodes, caps, count)
    free = np.bitwise_count(room.bits[nodes])
    order = nodes[np.lexsort((nodes, free, -able))]
    totals = np.cumsum(caps[order])
    full = int(np.searchsorted(totals, count))
    rest = count - (int(totals[full - 1]) if full else 0)
    tail = order[full:]
    key = np.where(caps[tail] >= rest, caps[tail], NOTHING)
    last = tail[np.lexsort((tail, np.bitwise_count(room.bits[tail]), key))[0]]
    chosen = np.zeros_like(caps)
    chosen[order[:full]] = caps[order[:full]]
    chosen[last] = rest
    return chosen


def _spread(pool: Pool, nodes: Ints, caps: Ints, count: int) -> Ints:
    racks = pool.rack[nodes]
    sizes = np.bincount(racks)[racks]
    fits = sizes >= count
    if fits.any():
        nodes = nodes[racks == racks[fits][np.argmin(sizes[fits])]]
    chosen = np.zeros_like(caps)
    chosen[nodes[:count]] = 1
    return chosen


def _ranks(pool: Pool, room: Room, group: TaskDemand, chosen: Ints, model: str | None) -> Placement:
    """Counts by node as a placement, ranks in the order of the nodes."""
    nodes = np.repeat(np.arange(len(pool), dtype=np.int64), chosen)
    count = len(nodes)
    wanted = group.model if model is None else model
    bits = np.zeros(count, dtype=np.uint64)
    if group.accelerators:
        free = room.bits if wanted is None else room.bits & pool.bits_of(wanted)
        bits = _lowest(free, nodes, chosen, group.accelerators)
    return Placement(
        nodes,
        bits,
        np.zeros(count, dtype=np.int64),
        np.full(count, group.cpu_milli, dtype=np.int64),
        np.full(count, group.memory_bytes, dtype=np.int64),
    )


def _lowest(free: Bits, nodes: Ints, chosen: Ints, each: int) -> Bits:
    """The lowest `each` free accelerators for every task, tasks of a node one after the other."""
    left = free[nodes]
    if int(chosen.max()) == 1:
        return _peel(left, each)
    place_in_node = np.arange(len(nodes)) - np.searchsorted(nodes, nodes)
    bits = np.zeros(len(nodes), dtype=np.uint64)
    for turn in range(int(chosen.max())):
        now = np.flatnonzero(place_in_node >= turn)
        part = _peel(left[now], each)
        left[now] ^= part
        mine = place_in_node[now] == turn
        bits[now[mine]] = part[mine]
    return bits


def _peel(words: Bits, count: int) -> Bits:
    """The lowest `count` ones of each word."""
    if (np.bitwise_count(words) == count).all():
        return words.copy()
    left = words.copy()
    for _ in range(count):
        left &= left - np.uint64(1)
    return words ^ left


def _place_unlike(pool: Pool, room: Room, demand: Demand) -> Placement | None:
    """Groups of unlike tasks: under one switch of the finest level that holds them all."""
    first = demand.groups[0]
    caps = capacity(pool, room, first)
    for number in _levels(demand):
        domain = domains(pool, LEVELS[number])
        sums = np.bincount(domain, weights=caps).astype(np.int64)
        fits = np.flatnonzero(sums >= first.count)
        for best in fits[np.argsort(sums[fits], kind="stable")][:MOST_DOMAINS]:
            found = _place_groups(pool, room.within(domain == best), demand)
            if found is not None:
                return found
    return None


def _place_groups(pool: Pool, room: Room, demand: Demand) -> Placement | None:
    # The hungriest first: what is small fits around it.  Ranks keep the order of the spec.
    parts: dict[int, Placement] = {}
    hungry = sorted(
        range(len(demand.groups)),
        key=lambda number: (-demand.groups[number].accelerators, -demand.groups[number].cpu_milli, number),
    )
    for number in hungry:
        group = demand.groups[number]
        part = _place_group(pool, room, group, group.count, demand)
        if part is None:
            return None
        room.shrink(part)
        parts[number] = part
    ordered = [parts[number] for number in range(len(demand.groups))]
    return Placement(
        np.concatenate([part.nodes for part in ordered]),
        np.concatenate([part.bits for part in ordered]),
        np.repeat(np.arange(len(ordered), dtype=np.int64), [len(part) for part in ordered]),
        np.concatenate([part.cpu_milli for part in ordered]),
        np.concatenate([part.memory_bytes for part in ordered]),
    )
