"""Where a gang goes: fewest leaves, then fewest spines, then the place that it fits best.

`place` answers with a whole placement or None; it books nothing.  A gang that fits under one switch
goes under the fullest switch that still holds it, so that whole leaves stay whole for large gangs.
Ranks follow the topology order of the nodes, so a ring over ranks enters and leaves each switch once.
"""

from __future__ import annotations

from collections.abc import Sequence

from l2_aistation.core.demand import LEVELS, Demand
from l2_aistation.core.pool import Bools, Placement, Pool

from .fragmentation import DemandClass, Fragmentation, typical_classes
from .gang import place_group
from .room import Room, allowed, capacity, domains
from .traffic import ring_bytes, ring_bytes_of
from .unlike import place_unlike

__all__ = [
    "LEVELS",
    "DemandClass",
    "Fragmentation",
    "Room",
    "allowed",
    "capacity",
    "domains",
    "place",
    "ring_bytes",
    "ring_bytes_of",
    "typical_classes",
]


def place(
    pool: Pool,
    demand: Demand,
    usable: Bools | None = None,
    *,
    score: Fragmentation | None = None,
    wishes: Sequence[Bools] = (),
) -> Placement | None:
    """The gang at the largest size that fits, from `least` up; None where even that does not.

    `usable` limits the nodes; `wishes` are nodes to prefer, the dearest wish first; with a `score` a
    single task goes where it leaves the fewest fragments.
    """
    room = Room.of(pool, usable)
    if len(demand.groups) > 1:
        return place_unlike(pool, room, demand, wishes)
    group = demand.groups[0]
    if score is not None and group.count == 1 and not wishes:
        return score.place(group, room.usable)
    best = place_group(pool, room, group, group.count, demand, wishes)
    low, high = demand.least // demand.unit, 0 if best is not None else (group.count - 1) // demand.unit
    while low <= high:  # what fits at n fits at n - 1
        middle = (low + high + 1) // 2
        found = place_group(pool, room, group, middle * demand.unit, demand, wishes)
        if found is None:
            high = middle - 1
        else:
            best, low = found, middle + 1
    return best
