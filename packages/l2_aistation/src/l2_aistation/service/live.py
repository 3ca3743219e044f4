"""The pool as a page shows it live: one shared board, and what changed on it since a version.

However many people watch, the loop is asked once a tick for what it holds (`collect`: array copies and
one walk over the live jobs), the board finds out which nodes changed, and each watcher is sent those
alone.  A node's row is [number, state, thousandths of cores in use, holder by accelerator(, parts)].
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from l2_aistation.core.pool import Bools, Ints, Placement, Pool, bit_places
from l2_aistation.core.world import Job

from .platform import Platform

FREE = -1
NO_PLACE = -1
"""Where a rank is that holds a node's cores and no accelerator."""

OTHER = 0
"""The holder's code for a job of another tenant."""

NODE_STATES = ("free", "busy", "spare", "cordoned", "down")
FREE_NODE, BUSY, SPARE, CORDONED, DOWN = range(5)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the loop holds at one moment, copied."""

    pool: Pool
    cluster: str
    up: Bools
    cordoned: Bools
    spare: Bools
    tasks: Ints
    cpu_free: Ints
    reasons: dict[str, str]
    holders: list[Job]
    placements: list[Placement]
    states: list[str]
    counts: Counter[tuple[str, str, str]]
    queues: dict[str, str | None]
    cycle_s: float


def collect(platform: Platform, cycle_s: float) -> Snapshot:
    """The loop's part: copies, no work.  Runs in the loop."""
    world, pool = platform.world, platform.world.pool
    holders: list[Job] = []
    placements: list[Placement] = []
    counts: Counter[tuple[str, str, str]] = Counter()
    for job in world.jobs.values():
        counts[job.tenant, job.queue, job.state] += 1
        if job.placement is not None:
            holders.append(job)
            placements.append(job.placement)
    return Snapshot(
        pool=pool,
        cluster=platform.facts.name,
        up=pool.up.copy(),
        cordoned=pool.cordoned.copy(),
        spare=pool.spare.copy(),
        tasks=pool.tasks.copy(),
        cpu_free=pool.cpu_free.copy(),
        reasons=dict(platform.cordons),
        holders=holders,
        placements=placements,
        states=[str(job.state) for job in holders],
        counts=counts,
        queues={name: getattr(queue, "parent", None) for name, queue in sorted(world.queues.items())},
        cycle_s=cycle_s,
    )


@dataclass(slots=True)
class Held:
    """A job on the board."""

    code: int
    job: str
    tenant: str
    queue: str
    user: str
    state: str
    placement: Placement
    changed: int


@dataclass
class Board:
    """The pool as last seen, with the version at which each node and job changed.

    `advance` and `frame` may be called from any thread.
    """

    epoch: str
    version: int = 0
    pool: Pool | None = None
    cluster: str = ""
    base: int = 0
    held: dict[str, Held] = field(default_factory=dict)
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)
    queues: dict[str, str | None] = field(default_factory=dict)
    cycle_s: float = 0.0

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self.next_code = OTHER + 1
        self.on: list[dict[int, list[int]]] = []  # by node: place -> codes of the jobs that hold it
        self.codes: dict[int, Held] = {}
        self.changed: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.state: NDArray[np.int64] = self.changed
        self.cpu: NDArray[np.int64] = self.changed
        self.cache: dict[Any, Any] = {}

    def advance(self, seen: Snapshot) -> bool:
        """Takes a snapshot in; whether anything differs from the one before."""
        with self.lock:
            following = self.version + 1
            if seen.pool is not self.pool:
                self._replace(seen.pool, following)
            moved = self._jobs(seen, following)
            moved |= self._nodes(seen, following)
            moved |= seen.counts != self.counts or seen.queues != self.queues
            self.counts, self.reasons, self.cluster = seen.counts, seen.reasons, seen.cluster
            self.queues, self.cycle_s = seen.queues, seen.cycle_s
            if moved or self.base == following:
                self.version = following
                self.cache = {}
                return True
            return False

    def _replace(self, pool: Pool, version: int) -> None:
        self.pool, self.base = pool, version
        self.held, self.codes = {}, {}
        self.on = [{} for _ in range(len(pool))]
        self.changed = np.full(len(pool), version, dtype=np.int64)
        self.state = np.full(len(pool), -1, dtype=np.int64)
        self.cpu = np.full(len(pool), -1, dtype=np.int64)

    def _jobs(self, seen: Snapshot, version: int) -> bool:
        moved = False
        alive = {job.id for job in seen.holders}
        for name in [name for name in self.held if name not in alive]:
            self._drop(self.held.pop(name), version)
            moved = True
        for job, placement, state in zip(seen.holders, seen.placements, seen.states, strict=True):
            known = self.held.get(job.id)
            if known is not None and known.placement is placement:
                if known.state != state:
                    known.state, known.changed, moved = state, version, True
                continue
            if known is not None:
                self._drop(known, version)
            self._put(job, placement, state, version)
            moved = True
        return moved

    def _put(self, job: Job, placement: Placement, state: str, version: int) -> None:
        held = Held(self.next_code, job.id, job.tenant, job.queue, job.owner, state, placement, version)
        self.next_code += 1
        self.held[job.id] = self.codes[held.code] = held
        for node, bits in zip(placement.nodes.tolist(), placement.bits.tolist(), strict=True):
            self.changed[node] = version
            for place in bit_places(bits) or (NO_PLACE,):
                self.on[node].setdefault(place, []).append(held.code)

    def _drop(self, held: Held, version: int) -> None:
        del self.codes[held.code]
        for node, bits in zip(held.placement.nodes.tolist(), held.placement.bits.tolist(), strict=True):
            self.changed[node] = version
            for place in bit_places(bits) or (NO_PLACE,):
                left = [code for code in self.on[node].get(place, []) if code != held.code]
                if left:
                    self.on[node][place] = left
                else:
                    self.on[node].pop(place, None)

    def _nodes(self, seen: Snapshot, version: int) -> bool:
        state = np.where(seen.tasks > 0, BUSY, FREE_NODE)
        state = np.where(seen.spare & (seen.tasks == 0), SPARE, state)
        state = np.where(seen.cordoned, CORDONED, state)
        state = np.where(seen.up, state, DOWN)
        cpu = seen.pool.cpu_total - seen.cpu_free
        differs = (state != self.state) | (cpu != self.cpu)
        self.changed[differs] = version
        self.state, self.cpu = state, cpu
        return bool(differs.any())

    # -- what a watcher is sent --------------------------------------------------------------------

    def remembered(self, key: Any, make: Callable[[], T]) -> T:
        """What `make` gives, kept until the board changes: a hundred watchers cost one."""
        cache = self.cache
        if key not in cache:
            cache[key] = make()
        found: T = cache[key]
        return found

    def frame(self, scope: str | None, since: str) -> dict[str, Any]:
        """What changed after `since` (a version as `frame` gave it) for a tenant, or for everybody.

        All of it, and `reset`, where the pool is another one since or the version is of another life.
        """
        with self.lock:
            epoch, _, number = since.partition(".")
            after = int(number) if epoch == self.epoch and number.isdigit() else 0
            after = after if self.base <= after <= self.version else 0
            return self.remembered((scope, after), lambda: self._frame(scope, after))

    def _frame(self, scope: str | None, after: int) -> dict[str, Any]:
        nodes = [self._row(number, scope) for number in np.flatnonzero(self.changed > after).tolist()]
        new = {code for row in nodes for code in row[3] if code > OTHER}
        new |= {
            code for row in nodes if len(row) > 4 for _, codes in row[4] for code in codes if code > OTHER
        }
        new |= {held.code for held in self.held.values() if held.changed > after and _sees(scope, held)}
        jobs = {code: self._job(code) for code in sorted(new)}
        frame = {
            "v": f"{self.epoch}.{self.version}",
            "base": f"{self.epoch}.{self.base}",
            "nodes": nodes,
            "jobs": jobs,
            "reasons": self.reasons,
            **self.sums(scope),
        }
        if not after:
            frame["reset"] = True
        return frame

    def _job(self, code: int) -> list[str]:
        held = self.codes[code]
        return [held.job, held.queue, held.user, held.state]

    def _row(self, number: int, scope: str | None) -> list[Any]:
        assert self.pool is not None
        on = self.on[number]
        codes = [FREE] * len(self.pool.facts[number].accelerators)
        parts: list[tuple[int, list[int]]] = []
        for place, holders in on.items():
            shown = [code if _sees(scope, self.codes[code]) else OTHER for code in dict.fromkeys(holders)]
            if place != NO_PLACE:
                codes[place] = shown[0]
            if place == NO_PLACE or len(shown) > 1 or self._part(holders[0]):
                parts.append((place, shown))
        row: list[Any] = [number, int(self.state[number]), int(self.cpu[number]), codes]
        return [*row, parts] if parts else row

    def _part(self, code: int) -> bool:
        return len(self.codes[code].placement.parts) > 0

    def sums(self, scope: str | None) -> dict[str, Any]:
        """Counts of nodes by state, of accelerators held, and of the caller's jobs by state and queue."""
        jobs: Counter[str] = Counter()
        for (tenant, _, state), count in self.counts.items():
            if scope is None or tenant == scope:
                jobs[state] += count
        states = np.bincount(self.state, minlength=len(NODE_STATES)) if len(self.state) else np.zeros(5, int)
        return {
            "counts": dict(jobs),
            "states": dict(zip(NODE_STATES, states.tolist(), strict=True)),
            "held": sum(len(on) - (NO_PLACE in on) for on in self.on),
            "cycle_ms": round(self.cycle_s * 1000, 2),
        }

    def layout(self) -> dict[str, Any]:
        """What does not change while the pool is the same: nodes, leaves, models, in the map's order."""
        with self.lock:
            return self.remembered("layout", self._layout)

    def _layout(self) -> dict[str, Any]:
        pool = self.pool
        assert pool is not None
        model = {name: number for number, name in enumerate(pool.models)}
        return {
            "cluster": self.cluster,
            "base": f"{self.epoch}.{self.base}",
            "leaves": [
                [name, pool.spine_names[spine]]
                for name, spine in zip(pool.leaf_names, pool.leaf_spine.tolist(), strict=True)
            ],
            "models": pool.models,
            "queues": list(self.queues.items()),
            "states": list(NODE_STATES),
            "nodes": [
                [facts.id, leaf, facts.cpu_cores, [model[item.model] for item in facts.accelerators]]
                for facts, leaf in zip(pool.facts, pool.leaf.tolist(), strict=True)
            ],
        }


def _sees(scope: str | None, held: Held) -> bool:
    return scope is None or held.tenant == scope
