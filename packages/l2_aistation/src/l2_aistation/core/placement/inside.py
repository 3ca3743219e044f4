"""Which accelerators of a node a task gets: linked ones together, broken groups before whole ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from l2_aistation.core.devices import Layout
from l2_aistation.core.pool import Bits, Ints, Pool


@lru_cache(maxsize=1 << 16)
def pick(free: int, count: int, layout: Layout) -> int:
    """`count` of a node's free accelerators (a word of bits; there are enough).

    Weak ones last; then all in the linked group, else the socket, that fits best; else over the
    fewest groups.
    """
    strong = free & ~layout.weak
    if strong.bit_count() < count:
        return strong | lowest(free & layout.weak, count - strong.bit_count())
    for groups in (layout.linked, layout.numa):
        fitting = [group & strong for group in groups if (group & strong).bit_count() >= count]
        if fitting:
            best = min(fitting, key=lambda group: (group.bit_count(), _room_around(group, strong, layout)))
            return _fewest(best, count, layout.linked)
    return _fewest(strong, count, layout.linked or layout.numa)


@lru_cache(maxsize=1 << 16)
def picks(free: int, count: int, tasks: int, layout: Layout) -> tuple[int, ...]:
    """For several tasks of a node, one after the other."""
    taken = []
    for _ in range(tasks):
        bits = pick(free, count, layout)
        free ^= bits
        taken.append(bits)
    return tuple(taken)


def _room_around(group: int, free: int, layout: Layout) -> int:
    """How much is free in the socket of a group: a fuller socket is filled first."""
    return next((numa & free for numa in layout.numa if numa & group), 0).bit_count()


def _fewest(free: int, count: int, groups: Sequence[int]) -> int:
    """`count` bits over the fewest groups: the largest that are used up, and one that fits the rest best."""
    taken = 0
    parts = sorted((group & free for group in groups if group & free), key=lambda part: -part.bit_count())
    for part in parts:
        rest = count - taken.bit_count()
        if part.bit_count() <= rest:
            taken |= part
    rest = count - taken.bit_count()
    left = [part for part in parts if not part & taken and part.bit_count() >= rest]
    if rest and left:
        return taken | lowest(left[-1], rest)
    return taken | lowest(free & ~taken, rest)


def lowest(bits: int, count: int) -> int:
    """The lowest `count` ones of a word."""
    left = bits
    for _ in range(count):
        left &= left - 1
    return bits ^ left


def accelerators(pool: Pool, free: Bits, nodes: Ints, chosen: Ints, each: int) -> Bits:
    """`each` free accelerators for every task; `nodes` by rank, `chosen` tasks by node."""
    words = free[nodes]
    if (np.bitwise_count(words) == each).all() and int(chosen.max()) == 1:
        return words
    if pool.devices.plain:
        return _lowest(words, nodes, chosen, each)
    bits: list[int] = []
    for node in np.flatnonzero(chosen).tolist():
        bits += picks(int(free[node]), each, int(chosen[node]), pool.layouts[node])
    return np.array(bits, dtype=np.uint64)


def _lowest(left: Bits, nodes: Ints, chosen: Ints, each: int) -> Bits:
    """The lowest `each` free accelerators for every task, tasks of a node one after the other."""
    most = int(chosen.max())
    if most == 1:
        return _peel(left, each)
    place_in_node = np.arange(len(nodes)) - np.searchsorted(nodes, nodes)
    bits = np.zeros(len(nodes), dtype=np.uint64)
    for turn in range(most):
        now = np.flatnonzero(place_in_node >= turn)
        part = _peel(left[now], each)
        left[now] ^= part
        mine = place_in_node[now] == turn
        bits[now[mine]] = part[mine]
    return bits


def _peel(words: Bits, count: int) -> Bits:
    """The lowest `count` ones of each word."""
    left = words.copy()
    for _ in range(count):
        left &= left - np.uint64(1)
    return words ^ left
