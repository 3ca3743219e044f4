"""The tree of queues: an operator sets any of them, the owner of a queue those below it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from l2_aistation._kit.problems import BadInput, Conflict, NotFound
from l2_aistation._kit.tokens import NAME, Principal
from l2_aistation.core.queue import Queue

from .platform import DEFAULT_QUEUE, Platform
from .rights import must_own_queue

LIMITS = tuple(item.name for item in fields(Queue) if item.name not in ("name", "version"))
"""What can be set of a queue."""


def put_queue(platform: Platform, who: Principal, name: str, limits: Mapping[str, Any]) -> dict[str, Any]:
    """Adds a queue or changes it: `limits` is all of it, what is left out is as for a new one."""
    if not NAME.match(name):
        raise BadInput(f"{name!r} is not a name", field="name", do="use a-z, 0-9 and '-', 63 at most")
    queue = Queue.from_record({**limits, "name": name})
    must_own_queue(platform, who, name, queue.parent)
    _room_for_children(platform, queue)
    _guarantees_fit(platform, queue)
    before = platform.world.queues.get(name)
    queue.version = 1 if before is None else before.version + 1
    platform.put_queue(queue)
    changed = {limit: value for limit, value in queue.as_record().items() if limit in LIMITS}
    platform.note("queue", None, who=who.name, name=name, change="set", **changed)
    return {"queue": name, "version": queue.version}


def delete_queue(platform: Platform, who: Principal, name: str) -> dict[str, Any]:
    """Takes a queue away that has no jobs and no queues below it."""
    queue = platform.world.queues.get(name)
    if queue is None:
        raise NotFound(f"no queue {name!r}", do="`aistation queue list` shows them")
    must_own_queue(platform, who, name, queue.parent)
    if name == DEFAULT_QUEUE:
        raise Conflict(f"queue {name} is where jobs go that name none", do="cap it at 0 instead")
    below = sorted(other.name for other in platform.world.queues.values() if other.parent == name)
    if below:
        raise Conflict(f"queue {name} has queues below it: {', '.join(below)}", do="delete those first")
    jobs = sum(1 for job in platform.world.jobs.values() if job.queue == name)
    if jobs:
        raise Conflict(f"queue {name} has {jobs} jobs", do="cancel them, or wait until they have ended")
    platform.world.remove_queue(name)
    platform.batch.queues[name] = None
    platform.note("queue", None, who=who.name, name=name, change="deleted")
    platform.dirty = True
    return {"queue": name, "deleted": True}


def _room_for_children(platform: Platform, queue: Queue) -> None:
    """A queue with jobs of its own cannot become a parent: jobs are in the leaves of the tree."""
    parent = queue.parent
    if parent is None or platform.world.queues.get(parent) is None:
        return
    if any(job.queue == parent for job in platform.world.jobs.values()):
        raise BadInput(
            f"queue {parent!r} has jobs of its own", field="parent", do="jobs go into queues with none below"
        )


def _guarantees_fit(platform: Platform, queue: Queue) -> None:
    """The guarantees of the topmost queues together must be there, or none is one."""
    if queue.parent is not None:
        return
    totals = platform.world.totals
    tops = [
        item for item in platform.world.queues.values() if item.parent is None and item.name != queue.name
    ]
    sums = (
        ("accelerators", sum(item.guarantee_accelerators for item in [*tops, queue]), totals.accelerators),
        ("cpu_cores", sum(item.guarantee_cpu_cores for item in [*tops, queue]), totals.cpu_milli / 1000),
    )
    for unit, asked, there in sums:
        if asked > there:
            raise BadInput(
                f"all guarantees together would be {asked:g}, the pool has {there:g}",
                field=f"guarantee_{unit}",
                do="lower this guarantee or another queue's",
            )
