"""A gang of equal tasks: fewest leaves, then fewest spines, then wishes, then the best fit.

Wishes (well nodes, linked accelerators, broken pairs first, cached data, near others) are tried from all of
them down to none; a rung of this ladder with fewer wishes is taken only if it needs fewer leaves or
spines than the one above.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from l2_aistation.core.demand import Demand, TaskDemand
from l2_aistation.core.pool import Bools, Ints, Placement, Pool

from .inside import accelerators, pick
from .kernels import compiled, loops
from .room import Room, allowed, capacity
from .shares import place_parts
from .spread import spread
from .switches import choose


def place_group(
    pool: Pool, room: Room, group: TaskDemand, count: int, demand: Demand, wishes: Sequence[Bools] = ()
) -> Placement | None:
    """`count` tasks of one group; None where they do not fit.  The dearest of the `wishes` comes first."""
    within = _compiled(pool, group, demand, wishes)
    for model in models_to_try(pool, group):
        if within is not None:
            free = allowed(pool, room, group, model)
            found: Placement | None = loops().place_gang(pool, room, free, group, count, within)
            if found is not None:
                return found
            continue
        best: tuple[tuple[int, int], Ints] | None = None
        for caps in ladder(pool, room, group, count, model, wishes):
            chosen = _chosen(pool, room, caps, count, demand)
            if chosen is None:
                continue
            cost = _switches(pool, chosen)
            if best is None or cost < best[0]:
                best = cost, chosen
            if cost == (1, 1):
                break
        if best is not None:
            return ranks(pool, room, group, best[1], model)
    return None


WITHIN = {None: 0, "site": 0, "spine": 1, "leaf": 2}
"""Required levels that the compiled loops know."""


def _compiled(pool: Pool, group: TaskDemand, demand: Demand, wishes: Sequence[Bools]) -> int | None:
    """The required level in the compiled loops' words; None where they are not there or choose otherwise."""
    plain = pool.sound and pool.devices.plain and not (group.part or wishes or demand.rules)
    if not plain or demand.preferred not in (None, "leaf") or not compiled(len(pool)):
        return None
    return WITHIN.get(demand.required)


def models_to_try(pool: Pool, group: TaskDemand) -> list[str | None]:
    """A gang of like accelerators runs at its own pace, a mixed one at the slowest's: one model first."""
    names = group.wanted or tuple(pool.models)
    if not group.accelerators or len(names) < 2:
        return [None]
    return [*names, None]


def ladder(
    pool: Pool, room: Room, group: TaskDemand, count: int, model: str | None, wishes: Sequence[Bools]
) -> Iterator[Ints]:
    """What each node could take under all wishes, under fewer, under none."""
    caps = capacity(pool, room, group, model)
    masks = [*wishes, *_health(pool, caps, count)]
    linked = _linked(pool, room, group, model)
    if linked is not None:
        masks.append(np.ones(len(pool), dtype=np.bool_))  # the last wish: within linked groups
    for kept in range(len(masks), 0, -1):
        base = caps if linked is None or kept < len(masks) else np.minimum(caps, linked)
        wished = np.where(np.logical_and.reduce(masks[:kept]), base, 0)
        if int(wished.sum()) >= count:
            yield wished
    yield caps


def _health(pool: Pool, caps: Ints, count: int) -> list[Bools]:
    """Nodes without a known fault, where some have one; rails count for a gang that leaves its node."""
    weak = pool.weak
    if pool.weak_rails.any() and int(caps.max(initial=0)) < count:
        weak = weak | (pool.weak_rails > 0)
    return [~weak] if weak.any() else []


def _linked(pool: Pool, room: Room, group: TaskDemand, model: str | None) -> Ints | None:
    """What each node could take on linked accelerators; for single ones, on broken groups."""
    masks, each = pool.devices.linked, group.accelerators
    if not len(masks) or not each:
        return None
    if group.part or each == 1:
        free = np.bitwise_count(allowed(pool, room, group, model) & masks)
        broken = ((free > 0) & (free < np.bitwise_count(masks))).any(axis=0)
        return np.where(broken, np.iinfo(np.int64).max, 0) if not group.part else None
    if each > int(np.bitwise_count(masks).max()):
        return None
    return capacity(pool, room, group, model, linked=True)


def _chosen(pool: Pool, room: Room, caps: Ints, count: int, demand: Demand) -> Ints | None:
    if demand.rules is not None and demand.rules.spread_level is not None:
        return spread(pool, room, caps, count, demand)
    return choose(pool, room, caps, count, demand)


def _switches(pool: Pool, chosen: Ints) -> tuple[int, int]:
    leaves = np.unique(pool.leaf[chosen > 0])
    return len(leaves), len(np.unique(pool.leaf_spine[leaves]))


def ranks(pool: Pool, room: Room, group: TaskDemand, chosen: Ints, model: str | None) -> Placement:
    """Counts by node as a placement, ranks in the order of the nodes: a ring enters each switch once."""
    if group.part:
        return place_parts(pool, room, group, chosen, model)
    nodes = np.repeat(np.arange(len(pool), dtype=np.int64), chosen)
    count = len(nodes)
    bits = np.zeros(count, dtype=np.uint64)
    if group.accelerators:
        bits = accelerators(pool, allowed(pool, room, group, model), nodes, chosen, group.accelerators)
    return Placement(
        nodes,
        bits,
        np.zeros(count, dtype=np.int64),
        np.full(count, group.cpu_milli, dtype=np.int64),
        np.full(count, group.memory_bytes, dtype=np.int64),
    )


def one_task(pool: Pool, group: TaskDemand, node: int) -> Placement:
    """One task with whole accelerators on a node that has room for it."""
    word = 0
    if group.accelerators:
        free = int(allowed(pool, Room.of(pool, pool.up), group)[node])
        word = pick(free, group.accelerators, pool.layouts[node])
    return Placement(
        np.array([node], dtype=np.int64),
        np.array([word], dtype=np.uint64),
        np.zeros(1, dtype=np.int64),
        np.array([group.cpu_milli], dtype=np.int64),
        np.array([group.memory_bytes], dtype=np.int64),
    )
