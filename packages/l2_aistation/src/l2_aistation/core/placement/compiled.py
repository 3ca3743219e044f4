"""The hot loops, compiled by numba.  Imported only where numba is installed (`kernels.compiled`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

from l2_aistation.core.pool import WHOLE, Ints

from .fragments import CORES, NEVER, Classes, Need, State

F = TypeVar("F", bound=Callable[..., Any])


def loop(function: F) -> F:
    """Compiled at its first call; the result is kept on disk where a folder for it can be written."""
    try:
        return cast("F", njit(cache=True, nogil=True)(function))
    except RuntimeError:
        return cast("F", njit(nogil=True)(function))


def refresh(
    classes: Classes, state: State, words: tuple[Any, ...], since: tuple[Ints, int], room: Ints
) -> None:
    """Idle thousandths, fragments and sort keys of the nodes that have changed since a booking."""
    free, shared, milli_left = words
    _refresh(classes, state, free, shared, milli_left, *since, room)


def raised(
    classes: Classes, need: Need, state: State, since: tuple[Ints, int], added: Ints, places: Ints
) -> None:
    """As `fragments.raised`, written into columns, for the nodes that have changed since a booking."""
    way = _raised_part if need.milli or need.size else _raised_whole
    way(classes, need, state, *since, added, places)


def compile_all() -> None:
    """Compiles every loop, by scoring no nodes."""
    row, table = np.zeros(1, dtype=np.int64), np.zeros((1, 1), dtype=np.int64)
    words = np.zeros(1, dtype=np.uint64)
    classes = Classes(row, row, row, row, row, row)
    state = State(row.copy(), row, table, table, table, table, row.copy())
    refresh(classes, state, (words, words, table), (row, -1), row.copy())
    for milli in (0, 1):
        raised(classes, Need(1, 1, 1, milli, 0, -1), state, (row, -1), row.copy(), row.copy())
    best(row, np.ones(1, dtype=np.bool_), row, row)


@loop
def best(added: Ints, usable: Any, ends: Ints, room: Ints) -> int:
    """The fullest node of the least step; -1 where the task fits nowhere."""
    least = NEVER
    for node in range(len(added)):
        if usable[node] and added[node] < least:
            least = added[node]
    if least == NEVER:
        return -1
    end = ends[np.searchsorted(ends, least)]
    found = -1
    for node in range(len(added)):
        if usable[node] and added[node] <= end and (found < 0 or room[node] < room[found]):
            found = node
    return found


@loop
def _refresh(
    classes: Classes,
    state: State,
    free: Any,
    shared: Any,
    milli_left: Ints,
    changed: Ints,
    seen: int,
    room: Ints,
) -> None:
    one = np.uint64(1)
    for node in range(len(changed)):
        if changed[node] <= seen:
            continue
        total = 0
        for place in range(milli_left.shape[1]):
            idle = 0
            if (free[node] >> np.uint64(place)) & one:
                idle = WHOLE
            elif (shared[node] >> np.uint64(place)) & one:
                idle = milli_left[node, place]
            state.idle[node, place] = idle
            total += idle
        state.before[node] = _amount(
            classes, state.cpu[node], state.memory[node], state.idle[node], state.model[node]
        )
        room[node] = total * CORES + state.cpu[node]


@loop
def _amount(classes: Classes, cpu: int, memory: int, idle: Ints, model: Ints) -> int:
    every = 0
    for place in range(len(idle)):
        every += idle[place]
    total = 0
    for number in range(len(classes.weight)):
        usable = 0
        wanted = classes.accelerators[number]
        if wanted and cpu >= classes.cpu[number] and memory >= classes.memory[number]:
            fitting = 0
            models = classes.models[number]
            milli = classes.milli[number]
            for place in range(len(idle)):
                if idle[place] >= milli and (models >> max(model[place], 0)) & 1:
                    fitting += 1
                    usable += idle[place]
            if fitting < wanted:
                usable = 0
        total += classes.weight[number] * (every - usable)
    return total


@loop
def _raised_whole(
    classes: Classes, need: Need, state: State, changed: Ints, seen: int, added: Ints, places: Ints
) -> None:
    rest = np.zeros(state.idle.shape[1], dtype=np.int64)
    for node in range(len(added)):
        if changed[node] <= seen:
            continue
        added[node], places[node] = NEVER, -1
        cpu, memory = state.cpu[node] - need.cpu, state.memory[node] - need.memory
        if cpu < 0 or memory < 0:
            continue
        missing, model = need.accelerators, state.model[node]
        rest[:] = state.idle[node]
        for place in range(len(rest)):
            if missing and rest[place] == WHOLE and (need.models >> max(model[place], 0)) & 1:
                rest[place] = 0
                missing -= 1
        if missing == 0:
            added[node] = _amount(classes, cpu, memory, rest, model) - state.before[node]


@loop
def _raised_part(
    classes: Classes, need: Need, state: State, changed: Ints, seen: int, added: Ints, places: Ints
) -> None:
    rest = np.zeros(state.idle.shape[1], dtype=np.int64)
    for node in range(len(added)):
        if changed[node] <= seen:
            continue
        added[node], places[node] = NEVER, -1
        cpu, memory = state.cpu[node] - need.cpu, state.memory[node] - need.memory
        if cpu < 0 or memory < 0:
            continue
        rest[:] = state.idle[node]
        for place in range(len(rest)):
            milli = _taken(need, state, node, place)
            if milli < 0 or (places[node] >= 0 and _like(state, node, place)):
                continue
            rest[place] -= milli
            now = _amount(classes, cpu, memory, rest, state.model[node]) - state.before[node]
            rest[place] += milli
            if now < added[node] or (now == added[node] and rest[place] < rest[places[node]]):
                added[node] = now
                places[node] = place


@loop
def _taken(need: Need, state: State, node: int, place: int) -> int:
    """Thousandths that the task takes of a device; -1 where it does not fit it."""
    size = state.size[node, place]
    if need.milli:
        milli = need.milli
        part = size // WHOLE * milli + size % WHOLE * milli // WHOLE
    else:
        milli = need.size * WHOLE // size if size > 0 else WHOLE + 1
        part = need.size
    has = state.idle[node, place]
    if has <= 0 or has < milli or state.left[node, place] < part:
        return -1
    return milli if (need.models >> max(state.model[node, place], 0)) & 1 else -1


@loop
def _like(state: State, node: int, place: int) -> bool:
    """Whether an earlier device of the node is in the same state: the task would add as much there."""
    idle, model = state.idle[node], state.model[node]
    left, size = state.left[node], state.size[node]
    for other in range(place):
        like = idle[other] == idle[place] and model[other] == model[place]
        if like and left[other] == left[place] and size[other] == size[place]:
            return True
    return False
