"""Tasks that share an accelerator: the fullest one that still holds the task, then one of a broken group."""

from __future__ import annotations

import numpy as np

from l2_aistation.core.demand import TaskDemand
from l2_aistation.core.pool import WHOLE, Ints, Placement, Pool

from .inside import pick
from .room import Parts, Room, allowed, part_amounts


def place_parts(pool: Pool, room: Room, group: TaskDemand, chosen: Ints, model: str | None) -> Placement:
    """`chosen` tasks by node, each on a part of one accelerator."""
    nodes = np.repeat(np.arange(len(pool), dtype=np.int64), chosen)
    free = allowed(pool, room, group, model)
    names = group.wanted if model is None else (model,)
    shared = room.shared(pool).shared & pool.bits_of_any(names)
    rows: list[tuple[int, int, int]] = []
    for node in np.flatnonzero(chosen).tolist():
        rows += _on_node(pool, room, group, node, int(chosen[node]), (int(free[node]), int(shared[node])))
    places = [place for place, _, _ in rows]
    return Placement(
        nodes,
        np.array([1 << place for place in places], dtype=np.uint64),
        np.zeros(len(nodes), dtype=np.int64),
        np.full(len(nodes), group.cpu_milli, dtype=np.int64),
        np.full(len(nodes), group.memory_bytes, dtype=np.int64),
        np.array([milli for _, milli, _ in rows], dtype=np.int64),
        np.array([size for _, _, size in rows], dtype=np.int64),
    )


def part_placement(pool: Pool, group: TaskDemand, node: int, place: int) -> Placement:
    """One task on a part of one device."""
    milli, size = part_amounts(pool, group, node, place)
    return Placement(
        np.array([node], dtype=np.int64),
        np.array([1 << place], dtype=np.uint64),
        np.zeros(1, dtype=np.int64),
        np.array([group.cpu_milli], dtype=np.int64),
        np.array([group.memory_bytes], dtype=np.int64),
        np.array([milli], dtype=np.int64),
        np.array([size], dtype=np.int64),
    )


def _on_node(
    pool: Pool, room: Room, group: TaskDemand, node: int, tasks: int, words: tuple[int, int]
) -> list[tuple[int, int, int]]:
    """Place, thousandths and bytes of each task on one node; there is room for them."""
    free, shared = words
    books: Parts = room.shared(pool)
    milli_left, size_left = books.milli[node].tolist(), books.size[node].tolist()
    rows = []
    for _ in range(tasks):
        best: tuple[int, int, int] | None = None
        for place in range(len(milli_left)):
            if not shared >> place & 1:
                continue
            milli, size = part_amounts(pool, group, node, place)
            if milli <= milli_left[place] and size <= size_left[place]:
                key = milli_left[place] - milli, size_left[place] - size, place
                best = key if best is None else min(best, key)
        if best is not None:
            place = best[2]
        else:
            place = _fresh(pool, group, node, free)
            free, shared = free & ~(1 << place), shared | 1 << place
        milli, size = part_amounts(pool, group, node, place)
        milli_left[place] -= milli
        size_left[place] -= size
        rows.append((place, milli, size))
    return rows


def _fresh(pool: Pool, group: TaskDemand, node: int, free: int) -> int:
    """A wholly free accelerator that holds one task: of a broken group, and not larger than needed."""
    memory = pool.devices.memory[node]
    fitting = 0
    for place in range(len(memory)):
        if free >> place & 1:
            milli, size = part_amounts(pool, group, node, place)
            if milli <= WHOLE and size <= int(memory[place]):
                fitting |= 1 << place
    return pick(fitting, 1, pool.layouts[node]).bit_length() - 1
