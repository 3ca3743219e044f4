"""A world held still: copied in one go where it lives, made into a world again wherever there is time.

Freezing costs about a microsecond a job; thawing builds all books anew and may run in another thread.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

import numpy as np

from .claims import Claim, Hold
from .decay import Decay
from .estimates import RunTimes
from .job import Job
from .pool import Ints, Placement, Pool
from .promise import Promise
from .queue import Queue
from .states import JobState
from .windows import Window
from .world import World

Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Frozen:
    """All that a world is made of.  Run times are shared: they are only looked up, and only ever grow."""

    pool: Pool
    queues: dict[str, Queue]
    jobs: list[tuple[type[Job], Values]]
    claims: dict[str, tuple[Claim, Hold]]
    promises: dict[str, Promise]
    verdicts: dict[Any, Any]
    evicted: dict[tuple[str, str], float]
    windows: dict[str, Window]
    ended: dict[str, tuple[JobState, bool]]
    run_times: RunTimes
    decay: Decay
    bookings: int


_READERS: dict[str, tuple[tuple[str, ...], Callable[[Job], Values]]] = {}


def _reader(kind: type[Job]) -> tuple[tuple[str, ...], Callable[[Job], Values]]:
    """The attributes of a kind of job, and how to read them all at once."""
    known = _READERS.get(kind.__qualname__)
    if known is None:
        names = tuple(item.name for item in fields(kind) if item.name != "watcher")
        known = _READERS[kind.__qualname__] = names, attrgetter(*names)
    return known


def freeze(world: World) -> Frozen:
    """The world as it is now."""
    return Frozen(
        world.pool.copy(),
        {name: replace(queue) for name, queue in world.queues.items()},
        [(type(job), _reader(type(job))[1](job)) for job in world.jobs.values()],
        {name: (claim, world.holds[name].copy()) for name, claim in world.claims.items()},
        dict(world.promises),
        dict(world.verdicts),
        dict(world.evicted),
        dict(world.windows),
        dict(world.ended),
        world.run_times,
        copy.deepcopy(world.decay),
        world.bookings,
    )


def thaw(frozen: Frozen, nodes: int = 0) -> World:
    """A world to try things on, with so many more nodes; nothing of it is shared with the frozen one's.

    A frozen world is thawed once.
    """
    pool, moved = _more(frozen.pool, nodes) if nodes else (frozen.pool, None)
    other = World(pool, frozen.queues)
    for kind, values in frozen.jobs:
        job, placement = _job(kind, values)
        other.jobs[job.id] = job
        if placement is None:
            continue
        if moved is None:
            other.adopt(job, placement)
        else:
            other.take(job, _moved(placement, moved))
    _keep(frozen, other, moved)
    for name in ("evicted", "windows", "ended"):
        getattr(other, name).update(getattr(frozen, name))
    other.run_times, other.decay, other.bookings = frozen.run_times, frozen.decay, frozen.bookings + 1
    return other


def _job(kind: type[Job], values: Values) -> tuple[Job, Placement | None]:
    job = object.__new__(kind)
    for name, value in zip(_reader(kind)[0], values, strict=True):
        object.__setattr__(job, name, value)
    placement = job.placement
    object.__setattr__(job, "watcher", None)
    object.__setattr__(job, "placement", None)
    return job, placement


def _moved(placement: Placement, moved: Ints) -> Placement:
    return replace(placement, nodes=moved[placement.nodes])


def _keep(frozen: Frozen, other: World, moved: Ints | None) -> None:
    """Claims and promises as they stand: what claims have withdrawn is in the copied books already."""
    if moved is None:
        for name, (claim, hold) in frozen.claims.items():
            other.claims[name], other.holds[name] = claim, hold
            other.waiting.refresh(other.jobs[name], gone=True)
            other.count(other.jobs[name], claim.placement, 1)
        other.promises.update(frozen.promises)
        other.verdicts.update(frozen.verdicts)
        return
    for name, (claim, _) in frozen.claims.items():
        other.claim(other.jobs[name], replace(claim, placement=_moved(claim.placement, moved)))
    for name, promise in frozen.promises.items():
        other.promises[name] = replace(promise, placement=_moved(promise.placement, moved))


def _more(pool: Pool, nodes: int) -> tuple[Pool, Ints]:
    """A pool with more nodes like its largest, empty but for its marks, and the new numbers of the old."""
    largest = max(pool.facts, key=lambda node: (len(node.accelerators), node.cpu_cores, node.id))
    extra = [
        replace(largest, id=f"what-if-{number}", leaf=f"what-if-{number // 32}", spare=False)
        for number in range(nodes)
    ]
    made = Pool([*pool.facts, *extra], pool.reserve_bytes)
    moved = np.array([made.index[node.id] for node in pool.facts], dtype=np.int64)
    for name in ("up", "cordoned", "spare", "weak", "weak_rails"):
        getattr(made, name)[moved] = getattr(pool, name)
    made.up[[made.index[node.id] for node in extra]] = True
    made.look()
    for name, mask in pool.cached.items():
        made.set_cached(name, [pool.facts[place].id for place in np.flatnonzero(mask).tolist()])
    return made, moved
