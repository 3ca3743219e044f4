"""Groups of unlike tasks: under one switch of the finest level that holds them all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from l2_aistation.core.demand import LEVELS, Demand
from l2_aistation.core.pool import Bools, Placement, Pool, merged

from .gang import place_group
from .room import Room, capacity, domains
from .switches import levels_of

MOST_DOMAINS = 64
"""How many switches a gang of unlike groups is tried under, at each level."""


def place_unlike(pool: Pool, room: Room, demand: Demand, wishes: Sequence[Bools] = ()) -> Placement | None:
    """All groups whole; None where they do not fit."""
    first = demand.groups[0]
    caps = capacity(pool, room, first)
    for number in levels_of(demand):
        domain = domains(pool, LEVELS[number])
        sums = np.bincount(domain, weights=caps).astype(np.int64)
        fits = np.flatnonzero(sums >= first.count)
        for best in fits[np.argsort(sums[fits], kind="stable")][:MOST_DOMAINS]:
            found = _place_groups(pool, room.within(pool, domain == best), demand, wishes)
            if found is not None:
                return found
    return None


def _place_groups(pool: Pool, room: Room, demand: Demand, wishes: Sequence[Bools]) -> Placement | None:
    # The hungriest first: what is small fits around it.  Ranks keep the order of the spec.
    parts: dict[int, Placement] = {}
    hungry = sorted(
        range(len(demand.groups)),
        key=lambda number: (-demand.groups[number].accelerators, -demand.groups[number].cpu_milli, number),
    )
    for number in hungry:
        group = demand.groups[number]
        part = place_group(pool, room, group, group.count, demand, wishes)
        if part is None:
            return None
        room.shrink(part)
        parts[number] = part
    return merged([parts[number] for number in range(len(demand.groups))])
