"""The journal of decisions: a snapshot of a world, and what it was told between cycles.

Each entry holds what changed since the cycle before, then the time of a cycle and the digest of what
it decided.  All of it is JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from .cluster import AcceleratorFacts, NodeFacts
from .cycle import Session
from .decay import Decay
from .digest import digest
from .estimates import RunTimes
from .pool import Pool
from .queue import Queue
from .records import (
    Record,
    change,
    changing,
    claim_from,
    claim_record,
    job_from,
    job_record,
    placement_from,
    placement_record,
    promise_from,
    promise_record,
)
from .statement import Entry
from .states import JobState
from .windows import Window
from .world import World

MARKS = ("up", "cordoned", "spare", "weak", "weak_rails", "weak_leaf")


# -- the whole world as JSON -----------------------------------------------------------------------


def snapshot(world: World) -> Record:
    """All that decisions depend on."""
    pool = world.pool
    return {
        "nodes": [asdict(node) for node in pool.facts],
        "reserve_bytes": pool.reserve_bytes,
        "marks": _marks(pool),
        "cached": {name: np.flatnonzero(mask).tolist() for name, mask in pool.cached.items()},
        "queues": {name: queue.as_record() for name, queue in world.queues.items()},
        "windows": [window.as_record() for window in world.windows.values()],
        "jobs": [{**job_record(job), **_place(world, job.id)} for job in world.jobs.values()],
        "evicted": [[*pair, at] for pair, at in world.evicted.items()],
        "promises": {name: promise_record(pool, item) for name, item in world.promises.items()},
        "ended": [[name, str(state), began] for name, (state, began) in world.ended.items()],
        "run_times": world.run_times.as_record(),
        "decay": world.decay.as_record(),
    }


def restore(record: Mapping[str, Any]) -> World:
    """The world of a snapshot."""
    pool = Pool([_node(node) for node in record["nodes"]], record["reserve_bytes"])
    _set_marks(pool, record["marks"])
    _set_cached(pool, record["cached"])
    world = World(pool)
    _tell_rest(world, record)
    for item in record["jobs"]:
        world.jobs[item["id"]] = job_from(item)
    _tell_places(world, {item["id"]: item for item in record["jobs"]})
    world.promises.update({name: promise_from(pool, item) for name, item in record["promises"].items()})
    world.ended.update({name: (JobState(state), began) for name, state, began in record["ended"]})
    world.run_times = RunTimes.from_record(record["run_times"])
    world.decay = Decay.from_record(record["decay"])
    return world


def _node(record: Mapping[str, Any]) -> NodeFacts:
    cards = tuple(AcceleratorFacts(**card) for card in record["accelerators"])
    return NodeFacts(**{**record, "accelerators": cards, "weak_rails": tuple(record["weak_rails"])})


def _marks(pool: Pool) -> Record:
    return {name: getattr(pool, name).tolist() for name in MARKS}


def _set_marks(pool: Pool, record: Mapping[str, Any]) -> None:
    for name, values in record.items():
        getattr(pool, name)[:] = values
    pool.look()
    pool.grown += 1


def _set_cached(pool: Pool, record: Mapping[str, Any]) -> None:
    for name, places in record.items():
        pool.set_cached(name, [pool.facts[place].id for place in places])


def _place(world: World, name: str) -> Record:
    job, claim = world.jobs[name], world.claims.get(name)
    return {
        "place": None if job.placement is None else placement_record(world.pool, job.placement),
        "claim": None if claim is None else claim_record(world.pool, claim),
    }


def _tell_rest(world: World, record: Mapping[str, Any]) -> None:
    """Queues, windows and evictions, each whole."""
    if "queues" in record:
        world.queues.clear()
        world.queues.update({name: Queue.from_record(item) for name, item in record["queues"].items()})
        world.recount()
    if "windows" in record:
        world.windows.clear()
        world.windows.update({item["name"]: Window.from_record(item) for item in record["windows"]})
    if "evicted" in record:
        world.evicted.clear()
        world.evicted.update({(claimant, victim): at for claimant, victim, at in record["evicted"]})


def _tell_places(world: World, records: Mapping[str, Mapping[str, Any]]) -> None:
    """Who holds and claims what: first all is given back that changed, then taken anew."""
    for name, item in records.items():
        job = world.jobs[name]
        if name in world.claims and item["claim"] != claim_record(world.pool, world.claims[name]):
            world.release(job)
        if job.placement is not None and item["place"] != placement_record(world.pool, job.placement):
            world.give(job)
    for name, item in records.items():
        job = world.jobs[name]
        if item["place"] is not None and job.placement is None:
            world.take(job, placement_from(world.pool, item["place"]))
    for name, item in records.items():  # a claim takes what is free: after all that is held is taken
        job = world.jobs[name]
        if item["claim"] is not None and name not in world.claims:
            world.claim(job, claim_from(world.pool, item["claim"]))


# -- what changed since the last cycle ---------------------------------------------------------------


class Recorder:
    """Writes the journal of one world.  `begin` and `end` enclose each cycle.

    A world that is replaced needs a new recorder, and its journal a new snapshot.  Queues and windows
    are compared by identity: whoever changes one puts in another object.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.known = set(world.jobs)
        self._remember()

    def _remember(self) -> None:
        world, pool = self.world, self.world.pool
        world.touched.clear()
        world.run_times.lessons.clear()
        self.marks = {name: getattr(pool, name).copy() for name in MARKS}
        self.cached = dict(pool.cached)
        self.queues = dict(world.queues)
        self.windows = dict(world.windows)
        self.evicted = dict(world.evicted)
        self.promises = dict(world.promises)
        self.decay = world.decay.at

    def begin(self) -> Record:
        """What the world was told since the last cycle."""
        world = self.world
        record = {**self._jobs(), **self._rest()}
        if world.promises != self.promises:
            record["promises"] = {
                name: promise_record(world.pool, item) for name, item in world.promises.items()
            }
        if world.decay.at != self.decay:
            record["decay"] = world.decay.as_record()
        if world.run_times.lessons:
            record["lessons"] = [
                [[list(name) for name in names], place] for names, place in world.run_times.lessons
            ]
        return record

    def _jobs(self) -> Record:
        world = self.world
        touched = sorted(world.touched)
        gone = [name for name in touched if name not in world.jobs and name in self.known]
        here = [name for name in touched if name in world.jobs]
        record: Record = {}
        if gone:
            record["gone"] = [[name, *_end(world, name)] for name in gone]
        if here:
            record["jobs"] = [self._job(name) for name in here]
        self.known.difference_update(gone)
        self.known.update(here)
        return record

    def _job(self, name: str) -> Record:
        job = self.world.jobs[name]
        record = changing(job) if name in self.known else job_record(job)
        return {"id": name, **record, **_place(self.world, name)}

    def _rest(self) -> Record:
        world, pool = self.world, self.world.pool
        record: Record = {}
        if not all(np.array_equal(getattr(pool, name), kept) for name, kept in self.marks.items()):
            record["marks"] = _marks(pool)
        if not _same(pool.cached, self.cached):
            record["cached"] = self._cached(pool)
        if not _same(world.queues, self.queues):
            record["queues"] = {name: queue.as_record() for name, queue in world.queues.items()}
        if not _same(world.windows, self.windows):
            record["windows"] = [window.as_record() for window in world.windows.values()]
        if world.evicted != self.evicted:
            record["evicted"] = [[*pair, at] for pair, at in world.evicted.items()]
        return record

    def _cached(self, pool: Pool) -> Record:
        """The data sets that are on other nodes than before; on none: an empty list."""
        none = np.zeros(0, dtype=np.bool_)
        return {
            name: np.flatnonzero(pool.cached.get(name, none)).tolist()
            for name in sorted({*pool.cached, *self.cached})
            if pool.cached.get(name) is not self.cached.get(name)
        }

    def end(self, record: Record, session: Session, entries: Sequence[Entry]) -> Record:
        """The entry of the journal: what was told, when the cycle was, and what it decided.

        To be called before the decisions are carried out: what that changes is told with the next.
        """
        self._remember()
        only = None if session.only is None else sorted(session.only)
        return {"told": record, "now": session.now, "only": only, "digest": digest(session, entries)}


def _same(ones: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    return len(ones) == len(others) and all(others.get(name) is item for name, item in ones.items())


def _end(world: World, name: str) -> tuple[str | None, bool]:
    state, began = world.ended.get(name, (None, False))
    return (None if state is None else str(state)), began


def tell(world: World, record: Mapping[str, Any]) -> None:
    """Tells a world what a recorder noted."""
    for name, state, began in record.get("gone", ()):
        _forget(world, name)
        if state is not None:
            world.ended[name] = JobState(state), began
    if "marks" in record:
        _set_marks(world.pool, record["marks"])
    _set_cached(world.pool, record.get("cached", {}))
    _tell_rest(world, {name: record[name] for name in ("queues", "windows") if name in record})
    places = {item["id"]: item for item in record.get("jobs", ())}
    for name, item in places.items():
        if name not in world.jobs:
            world.jobs[name] = job_from(item)
        else:
            change(world.jobs[name], item)
    _tell_places(world, places)
    _tell_rest(world, {"evicted": record["evicted"]} if "evicted" in record else {})
    _tell_times(world, record)


def _tell_times(world: World, record: Mapping[str, Any]) -> None:
    """Promises, lessons about run times, and what queues held."""
    if "promises" in record:
        found = {name: promise_from(world.pool, item) for name, item in record["promises"].items()}
        world.promises.clear()
        world.promises.update(found)
    for names, place in record.get("lessons", ()):
        world.run_times.count([tuple(name) for name in names], place)
    if "decay" in record:
        world.decay = Decay.from_record(record["decay"])


def _forget(world: World, name: str) -> None:
    job = world.jobs[name]
    if name in world.claims:
        world.release(job)
    if job.placement is not None:
        world.give(job)
    del world.jobs[name]
