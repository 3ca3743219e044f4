"""Exact packing of a few unlike groups on a few nodes: where taking them one after the other fails."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from l2_aistation.core.demand import Demand
from l2_aistation.core.pool import Ints, Placement, Pool, merged

from .gang import ranks
from .room import Room, capacity

MOST_STATES = 60_000
"""Nodes times numbers of tasks still to place: above, nothing is tried."""

Counts = tuple[int, ...]


def pack(pool: Pool, room: Room, demand: Demand) -> Placement | None:
    """All groups on the usable nodes of a room that may be shrunk; None where they do not fit or are many.

    A state is how many tasks of each group are still to place; node by node, whatever a node can take at
    most leads on.  Only for whole accelerators of any model.
    """
    groups = demand.groups
    counts = tuple(group.count for group in groups)
    nodes = np.flatnonzero(room.usable).tolist()
    if any(group.part or group.wanted for group in groups) or len(pool.models) > 1:
        return None
    if prod(count + 1 for count in counts) * len(nodes) > MOST_STATES:
        return None
    caps = [capacity(pool, room, group)[nodes].tolist() for group in groups]
    reached: list[dict[Counts, tuple[Counts, Counts]]] = []
    states = {counts}
    for place, node in enumerate(nodes):
        most = [min(row[place], count) for row, count in zip(caps, counts, strict=True)]
        loads = _loads(room, demand, node, most)
        step: dict[Counts, tuple[Counts, Counts]] = {}
        for state in states:
            for load in loads:
                taken = tuple(map(min, state, load))
                left = tuple(have - take for have, take in zip(state, taken, strict=True))
                step.setdefault(left, (state, taken))
        reached.append(step)
        states = set(step)
    done = tuple(0 for _ in counts)
    if done not in states:
        return None
    chosen = np.zeros((len(groups), len(pool)), dtype=np.int64)
    for node, step in zip(reversed(nodes), reversed(reached), strict=True):
        done, taken = step[done]
        chosen[:, node] = taken
    return _placed(pool, room, demand, chosen)


def _loads(room: Room, demand: Demand, node: int, most: list[int]) -> list[Counts]:
    """What a node can take, without what is less in every group than another."""
    free = int(room.bits[node]).bit_count(), int(room.cpu[node]), int(room.memory[node])
    fitting = [
        load
        for load in product(*(range(number, -1, -1) for number in most))
        if sum(n * group.accelerators for n, group in zip(load, demand.groups, strict=True)) <= free[0]
        and sum(n * group.cpu_milli for n, group in zip(load, demand.groups, strict=True)) <= free[1]
        and sum(n * group.memory_bytes for n, group in zip(load, demand.groups, strict=True)) <= free[2]
    ]
    best: list[Counts] = []
    for load in fitting:  # in falling order: whatever is less than another comes after it
        if not any(all(mine <= its for mine, its in zip(load, other, strict=True)) for other in best):
            best.append(load)
    return best


def _placed(pool: Pool, room: Room, demand: Demand, chosen: Ints) -> Placement:
    parts = []
    for group, counts in zip(demand.groups, chosen, strict=True):
        part = ranks(pool, room, group, counts, None)
        room.shrink(part)
        parts.append(part)
    return merged(parts)
