"""The arithmetic of fragments over some nodes, as arrays; `compiled` has the same as loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from l2_aistation.core.pool import WHOLE, Ints, Pool

CORES = 1 << 32
"""Above the thousandths of cores of any node."""

NEVER = int(np.iinfo(np.int64).max)
"""What a task adds to the fragments of a node that it does not fit."""


class Classes(NamedTuple):
    """Typical tasks as arrays; `models` are bits over the pool's models, `milli` 1000 for whole ones."""

    cpu: Ints
    memory: Ints
    accelerators: Ints
    milli: Ints
    models: Ints
    weight: Ints


class Need(NamedTuple):
    """What one task needs."""

    cpu: int
    memory: int
    accelerators: int
    milli: int
    size: int
    models: int


class State(NamedTuple):
    """Some nodes as they are: by node, and by node and place."""

    cpu: Ints
    memory: Ints
    idle: Ints
    model: Ints
    left: Ints
    """Bytes of each accelerator that nobody holds."""
    size: Ints
    """Usable bytes of each accelerator."""
    before: Ints

    @classmethod
    def whole(cls, pool: Pool, idle: Ints, before: Ints) -> State:
        """The pool's own arrays."""
        devices = pool.devices
        return cls(
            pool.cpu_free, pool.memory_free, idle, devices.model, devices.bytes_left, devices.memory, before
        )

    @classmethod
    def of(cls, pool: Pool, idle: Ints, before: Ints, nodes: Ints) -> State:
        """Rows of the pool."""
        devices = pool.devices
        return cls(
            pool.cpu_free[nodes],
            pool.memory_free[nodes],
            idle[nodes],
            devices.model[nodes],
            devices.bytes_left[nodes],
            devices.memory[nodes],
            before[nodes],
        )


def idle_milli(pool: Pool, nodes: Ints) -> Ints:
    """Node × place: thousandths of each accelerator that nobody holds."""
    places = np.arange(pool.devices.model.shape[1], dtype=np.uint64)
    one = np.uint64(1)
    free = (pool.free_bits[nodes, None] >> places & one).astype(np.int64) * WHOLE
    shared = (pool.devices.shared[nodes, None] >> places & one).astype(np.bool_)
    idle: Ints = np.where(shared, pool.devices.milli_left[nodes], free)
    return idle


def amounts(classes: Classes, cpu: Ints, memory: Ints, idle: Ints, model: Ints) -> Ints:
    """For each node, idle thousandths that each class cannot use, times its weight, over all classes."""
    total = np.zeros(len(cpu), dtype=np.int64)
    every = idle.sum(axis=1)
    for number in range(len(classes.weight)):
        count = int(classes.accelerators[number])
        weight = int(classes.weight[number])
        if not count:
            total += weight * every
            continue
        fitting = (idle >= classes.milli[number]) & (classes.models[number] >> np.maximum(model, 0) & 1 > 0)
        able = (
            (cpu >= classes.cpu[number]) & (memory >= classes.memory[number]) & (fitting.sum(axis=1) >= count)
        )
        total += weight * (every - np.where(able, np.where(fitting, idle, 0).sum(axis=1), 0))
    return total


def raised(classes: Classes, need: Need, state: State) -> tuple[Ints, Ints]:
    """For each node, what a task adds to the fragments, `NEVER` where it does not fit; and its device."""
    fits = (state.cpu >= need.cpu) & (state.memory >= need.memory)
    cpu, memory = state.cpu - need.cpu, state.memory - need.memory
    will_do = need.models >> np.maximum(state.model, 0) & 1 > 0
    none = np.full(len(cpu), -1, dtype=np.int64)
    if not (need.milli or need.size):
        whole = (state.idle == WHOLE) & will_do
        fits &= whole.sum(axis=1) >= need.accelerators
        taken = whole & (np.cumsum(whole, axis=1) <= need.accelerators)
        after = amounts(classes, cpu, memory, np.where(taken, 0, state.idle), state.model)
        return np.where(fits, after - state.before, NEVER), none
    best, best_idle, place = np.full(len(cpu), NEVER, dtype=np.int64), none.copy(), none
    for number in range(state.idle.shape[1]):
        idle = state.idle[:, number]
        milli, size = _part(need, state.size[:, number])
        able = fits & will_do[:, number] & (idle > 0) & (idle >= milli) & (state.left[:, number] >= size)
        rest = state.idle.copy()
        rest[:, number] -= milli
        added = amounts(classes, cpu, memory, rest, state.model) - state.before
        better = able & ((added < best) | ((added == best) & (idle < best_idle)))
        best = np.where(better, added, best)
        best_idle = np.where(better, idle, best_idle)
        place = np.where(better, number, place)
    return best, place


def _part(need: Need, memory: Ints) -> tuple[Ints, Ints]:
    """Thousandths and bytes of each node's device."""
    if need.milli:
        size = memory // WHOLE * need.milli + memory % WHOLE * need.milli // WHOLE
        return np.full(len(memory), need.milli, dtype=np.int64), size
    milli = np.where(memory > 0, need.size * WHOLE // np.maximum(memory, 1), WHOLE + 1)
    return milli, np.full(len(memory), need.size, dtype=np.int64)
