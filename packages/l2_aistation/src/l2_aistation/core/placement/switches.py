"""Under which switches a number of equal tasks goes, given how many each node could take."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np

from l2_aistation.core.demand import LEVELS, Demand
from l2_aistation.core.pool import Ints, Pool

from .room import Room, domains

MOST_PAIRED_SPINES = 16
"""Up to this many spines, each pair of them is tried when one spine is not enough."""

NOTHING = np.int64(np.iinfo(np.int64).max)
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
    weak = pool.weak_leaf
    best: tuple[tuple[int, int, int, int], Ints] | None = None
    for usable in (np.where(weak, 0, sums), sums) if weak.any() else (sums,):
        for leaves in _leaf_sets(pool, usable, count, within):
            picked = _fewest(usable, leaves, count)
            spines = len(set(pool.leaf_spine[picked].tolist()))
            rank = len(picked), spines, int(weak[picked].sum()), int(usable[leaves].sum()) - count
            if best is None or rank < best[0]:
                best = rank, picked
    if best is None:
        return None
    chosen = np.zeros(len(pool), dtype=np.int64)
    rest = count
    for leaf in best[1]:  # the last one takes what is left
        part = fill(pool, room, np.where(pool.leaf == leaf, caps, 0), min(rest, int(sums[leaf])))
        chosen += part
        rest -= int(part.sum())
    return chosen


def _leaf_sets(pool: Pool, sums: Ints, count: int, within: str) -> Iterable[Ints]:
    """Sets of leaves to choose from: each spine that is enough, each pair of spines, all leaves."""
    spine_sums = np.bincount(pool.leaf_spine, weights=sums, minlength=len(pool.spine_names))
    for spine in np.flatnonzero(spine_sums >= count):
        yield np.flatnonzero(pool.leaf_spine == spine)
    if within == "spine" or int(sums.sum()) < count:
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
    free = np.bitwise_count(room.bits[nodes])
    order = nodes[np.lexsort((nodes, free, -able, pool.weak[nodes]))]
    totals = np.cumsum(caps[order])
    full = int(np.searchsorted(totals, count))
    rest = count - (int(totals[full - 1]) if full else 0)
    tail = order[full:]
    key = np.where(caps[tail] >= rest, caps[tail], NOTHING)
    last = tail[np.lexsort((tail, np.bitwise_count(room.bits[tail]), key, pool.weak[tail]))[0]]
    if caps[last] < rest:
        last = tail[0]
    chosen = np.zeros_like(caps)
    chosen[order[:full]] = caps[order[:full]]
    chosen[last] = rest
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
