"""Under which switches a number of equal tasks goes, given how many each node could take."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, combinations

import numpy as np

from l2_aistation.core.demand import LEVELS, Demand
from l2_aistation.core.pool import Ints, Pool

from .room import Room, domains

MOST_PAIRED_SPINES = 16
"""Up to this many spines, each pair of them is tried when one spine is not enough."""

ABLE, FREE = 1 << 21, 128
"""Above the tasks, and above the free accelerators, of any one node: the places of a sort key."""

LEAF = LEVELS.index("leaf")


def levels_of(demand: Demand) -> range:
    """The levels to try, from the preferred one up to the required one."""
    coarsest = LEVELS.index(demand.required or "site")
    finest = LEVELS.index(demand.preferred) if demand.preferred else LEAF
    return range(min(finest, coarsest), coarsest + 1)


def choose(pool: Pool, room: Room, caps: Ints, count: int, demand: Demand) -> Ints | None:
    """How many of `count` equal tasks each node takes, given what each could; None where they do not fit."""
    if int(caps.sum()) < count:
        return None
    levels = levels_of(demand)
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
            return fill(pool, room, np.where(domain == best, caps, 0), count)
        return _over_leaves(pool, room, caps, count, LEVELS[number])
    return None


def _over_leaves(pool: Pool, room: Room, caps: Ints, count: int, within: str) -> Ints | None:
    """Fewest leaves, then fewest spines, then sound links upwards, then least left over."""
    sums = np.bincount(pool.leaf, weights=caps, minlength=len(pool.leaf_names)).astype(np.int64)
    picked = leaves_for(pool, sums, count, within)
    if pool.weak_leaf.any():
        sound = leaves_for(pool, np.where(pool.weak_leaf, 0, sums), count, within)
        if sound is not None and picked is not None and _cost(pool, sound) <= _cost(pool, picked):
            picked = sound
    if picked is None:
        return None
    chosen = np.zeros(len(pool), dtype=np.int64)
    rest = count
    for leaf in picked:  # the last one takes what is left
        part = fill(pool, room, np.where(pool.leaf == leaf, caps, 0), min(rest, int(sums[leaf])))
        chosen += part
        rest -= int(part.sum())
    return chosen


def _cost(pool: Pool, leaves: list[int]) -> tuple[int, int]:
    return len(leaves), len(set(pool.leaf_spine[leaves].tolist()))


def leaves_for(pool: Pool, sums: Ints, count: int, within: str) -> list[int] | None:
    """The fewest leaves that hold `count`, given what each could; under the fewest spines.

    Within one spine that is exact.  Else each pair of spines is tried, and then all of them, the
    roomiest leaves first.
    """
    rooms, spine_of = sums.tolist(), pool.leaf_spine.tolist()
    spines: list[list[int]] = [[] for _ in pool.spine_names]
    for leaf in sorted(range(len(rooms)), key=lambda leaf: (-rooms[leaf], leaf)):
        if rooms[leaf]:
            spines[spine_of[leaf]].append(leaf)
    totals = [sum(rooms[leaf] for leaf in leaves) for leaves in spines]
    every = [leaf for leaves in spines for leaf in leaves]
    most = _least(sorted((rooms[leaf] for leaf in every), reverse=True), count)
    if within == "spine":
        sizes = [_least([rooms[leaf] for leaf in leaves], count) for leaves in spines]
        most = min((size for size in sizes if size), default=0)
    if not most:
        return None
    for sets in _spine_sets(spines, totals, count, alone=within == "spine"):
        found = [members for members in sets if _top(spines, members, rooms, most) >= count]
        if found:
            members = min(found, key=lambda members: (sum(totals[spine] for spine in members), members))
            leaves = [leaf for spine in members for leaf in spines[spine]]
            return _fewest(rooms, sorted(leaves, key=lambda leaf: (-rooms[leaf], leaf)), count)
    return _fewest(
        rooms, sorted(every, key=lambda leaf: (-rooms[leaf], -totals[spine_of[leaf]], leaf)), count
    )


def _spine_sets(
    spines: list[list[int]], totals: list[int], count: int, *, alone: bool
) -> Iterable[list[tuple[int, ...]]]:
    """Single spines that are enough, then pairs of them."""
    yield [(spine,) for spine, total in enumerate(totals) if total >= count]
    used = [spine for spine, leaves in enumerate(spines) if leaves]
    if not alone and 2 < len(used) <= MOST_PAIRED_SPINES:
        yield [pair for pair in combinations(used, 2) if totals[pair[0]] + totals[pair[1]] >= count]


def _top(spines: list[list[int]], members: tuple[int, ...], rooms: list[int], most: int) -> int:
    """What the `most` roomiest leaves under some spines hold."""
    if len(members) == 1:
        return sum(rooms[leaf] for leaf in spines[members[0]][:most])
    best = sorted((rooms[leaf] for spine in members for leaf in spines[spine][:most]), reverse=True)
    return sum(best[:most])


def _least(rooms: list[int], count: int) -> int:
    """How many of some leaves, the roomiest first, hold `count`; 0 where all of them do not."""
    for number, total in enumerate(accumulate(rooms), 1):
        if total >= count:
            return number
    return 0


def _fewest(rooms: list[int], order: list[int], count: int) -> list[int]:
    """The first leaves of an order that hold `count`, the last of them the smallest that is enough."""
    picked: list[int] = []
    rest = count
    for number, leaf in enumerate(order):
        if rooms[leaf] >= rest:
            tail = order[number:]
            return [*picked, min((room, leaf) for leaf in tail if (room := rooms[leaf]) >= rest)[1]]
        picked.append(leaf)
        rest -= rooms[leaf]
    return picked


def fill(pool: Pool, room: Room, caps: Ints, count: int) -> Ints:
    """`count` tasks on the fewest of some nodes, the last one a best fit; broken nodes before whole ones.

    Nodes with a known fault come last.
    """
    total = int(caps.sum())
    if total == count:
        return caps
    nodes = np.flatnonzero(caps)
    able = caps[nodes]
    if int(able.max()) == 1:
        # One task a node: keep racks whole by taking the rack that fits best, else in rack order.
        return _one_each(pool, nodes, caps, count)
    free = np.bitwise_count(room.bits[nodes]).astype(np.int64)
    weak = pool.weak[nodes].astype(np.int64)
    order = np.argsort(((weak * ABLE + ABLE - 1 - able) * FREE + free) * len(pool) + nodes)
    totals = np.cumsum(able[order])
    full = int(np.searchsorted(totals, count))
    rest = count - (int(totals[full - 1]) if full else 0)
    tail = order[full:]
    fits = tail[able[tail] >= rest]
    last = fits[np.argmin(((weak[fits] * ABLE + able[fits]) * FREE + free[fits]) * len(pool) + nodes[fits])]
    chosen = np.zeros_like(caps)
    chosen[nodes[order[:full]]] = able[order[:full]]
    chosen[nodes[last]] = rest
    return chosen


def _one_each(pool: Pool, nodes: Ints, caps: Ints, count: int) -> Ints:
    racks = pool.rack[nodes]
    sizes = np.bincount(racks)[racks]
    fits = sizes >= count
    if fits.any():
        nodes = nodes[racks == racks[fits][np.argmin(sizes[fits])]]
    if pool.weak.any():
        nodes = nodes[np.argsort(pool.weak[nodes], kind="stable")]
    chosen = np.zeros_like(caps)
    chosen[nodes[:count]] = 1
    return chosen
