"""Groups of unlike tasks: on the fewest leaves, then under the fewest spines, that hold them all.

Sets of leaves are tried from one leaf up, the tightest first; in each, the groups are packed one
after the other in a few orders, or exactly where they are few.  The tries are bounded: small pools
get the optimum (tested against CP-SAT), on large ones what is found first is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, islice, permutations

import numpy as np

from l2_aistation.core.demand import LEVELS, Demand
from l2_aistation.core.pool import Bools, Ints, Placement, Pool, merged

from .gang import place_group
from .packing import pack
from .room import Room, capacity, domains
from .switches import LEAF, levels_of

MOST_SETS = 256
"""Sets of leaves of one size that are tried."""

MOST_ORDERS = 6
"""Orders of the groups that are tried on one set of switches."""

PLAIN = Demand((), 0)
"""No wish for a level: the set of switches is chosen already."""


def place_unlike(pool: Pool, room: Room, demand: Demand, wishes: Sequence[Bools] = ()) -> Placement | None:
    """All groups whole; None where no place was found."""
    caps = np.array([capacity(pool, room, group) for group in demand.groups])
    counts = np.array([group.count for group in demand.groups])
    if (caps.sum(axis=1) < counts).any():
        return None
    levels = levels_of(demand)
    for number in levels:
        if number > LEAF:
            break
        found = _under_one(pool, room, demand, caps, counts, LEVELS[number], wishes)
        if found is not None:
            return found
    if levels.stop - 1 <= LEAF:
        return None
    within = LEVELS[levels.stop - 1]
    for leaves in _leaf_sets(pool, caps, counts, within):
        found = _packed(pool, room, demand, np.isin(pool.leaf, leaves), wishes)
        if found is not None:
            return found
    return _anyhow(pool, room, demand, within, wishes)


def _under_one(
    pool: Pool,
    room: Room,
    demand: Demand,
    caps: Ints,
    counts: Ints,
    level: str,
    wishes: Sequence[Bools],
) -> Placement | None:
    """Under one switch of a level, the fullest that holds all groups."""
    domain = domains(pool, level)
    sums = _sums(domain, caps)
    fits = np.flatnonzero((sums >= counts[:, None]).all(axis=0))
    tight = (sums[:, fits] / np.maximum(counts, 1)[:, None]).sum(axis=0)
    for best in fits[np.argsort(tight, kind="stable")][:MOST_SETS]:
        found = _packed(pool, room, demand, domain == best, wishes)
        if found is not None:
            return found
    return None


def _sums(domain: Ints, caps: Ints) -> Ints:
    """Group × switch: how many tasks it could take."""
    rows = [np.bincount(domain, weights=row) for row in caps]
    return np.array(rows).astype(np.int64)


def _leaf_sets(pool: Pool, caps: Ints, counts: Ints, within: str) -> Iterator[Ints]:
    """Sets of two leaves and more that could hold all groups: few spines first, then the tightest."""
    sums = _sums(pool.leaf, caps)
    leaves = np.flatnonzero(sums.any(axis=0))
    share = (sums / np.maximum(counts, 1)[:, None]).max(axis=0)
    roomy = leaves[np.argsort(-share[leaves], kind="stable")]
    for size in range(2, len(leaves) + 1):
        found = []
        for members in islice(combinations(roomy.tolist(), size), MOST_SETS * 8):
            spines = len(set(pool.leaf_spine[list(members)].tolist()))
            if within == "spine" and spines > 1:
                continue
            if (sums[:, members].sum(axis=1) >= counts).all():
                found.append((spines, float(share[list(members)].sum()), members))
        yield from (np.array(members) for _, _, members in sorted(found)[:MOST_SETS])


def _anyhow(pool: Pool, room: Room, demand: Demand, within: str, wishes: Sequence[Bools]) -> Placement | None:
    """Over any leaves of one spine, or of the site."""
    domain = domains(pool, within)
    for switch in range(int(domain.max(initial=-1)) + 1):
        found = _packed(pool, room, demand, domain == switch, wishes)
        if found is not None:
            return found
    return None


def _packed(
    pool: Pool, room: Room, demand: Demand, nodes: Bools, wishes: Sequence[Bools]
) -> Placement | None:
    """All groups on some nodes, in the first order of packing that succeeds."""
    for order in islice(_orders(demand), MOST_ORDERS):
        parts: dict[int, Placement] = {}
        rest = room.within(pool, nodes)
        for number in order:
            group = demand.groups[number]
            part = place_group(pool, rest, group, group.count, PLAIN, wishes)
            if part is None:
                break
            rest.shrink(part)
            parts[number] = part
        else:
            return merged([parts[number] for number in range(len(demand.groups))])
    return pack(pool, room.within(pool, nodes), demand)


def _orders(demand: Demand) -> Iterator[tuple[int, ...]]:
    """The hungriest group first: what is small fits around it; then all other orders."""
    groups = demand.groups
    hungry = sorted(
        range(len(groups)),
        key=lambda number: (
            not groups[number].wanted,
            -groups[number].accelerators,
            -groups[number].cpu_milli,
            number,
        ),
    )
    return permutations(hungry)
