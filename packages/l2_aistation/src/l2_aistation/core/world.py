"""What a cycle sees: queues, jobs and who holds how much."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .demand import Demand
from .estimates import RunTimes
from .job import Job, Jobs
from .pool import Placement, Pool, Totals
from .promise import Promise
from .refusal import Refusal
from .states import FINAL, JobState
from .waiting import Waiting
from .windows import Window

__all__ = ["Amount", "Job", "Queue", "World", "amount_of"]

MOST_ENDED = 20_000
"""Ended jobs whose end is remembered here; older ones are in the store."""


@dataclass(slots=True)
class Amount:
    """A share of the pool: accelerators and thousandths of a core (and bytes of memory)."""

    accelerators: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0

    def add(self, other: Amount, sign: int = 1) -> None:
        """Adds another amount, or takes it off."""
        self.accelerators += sign * other.accelerators
        self.cpu_milli += sign * other.cpu_milli
        self.memory_bytes += sign * other.memory_bytes

    def dominant_share(self, of: Totals) -> float:
        """The largest share of any one resource of the pool (DRF, Ghodsi et al., NSDI 2011)."""
        return max(
            self.accelerators / of.accelerators if of.accelerators else 0.0,
            self.cpu_milli / of.cpu_milli if of.cpu_milli else 0.0,
            self.memory_bytes / of.memory_bytes if of.memory_bytes else 0.0,
        )


@dataclass(slots=True)
class Queue:
    """A queue: what it is sure to get, and what it never exceeds; None leaves a resource open."""

    name: str
    guarantee_accelerators: int = 0
    guarantee_cpu_cores: float = 0.0
    cap_accelerators: int | None = None
    cap_cpu_cores: float | None = None
    weight: float = 1.0
    version: int = 1


def amount_of(placement: Placement) -> Amount:
    """What a placement holds."""
    return Amount(
        int(np.bitwise_count(placement.bits).sum()),
        int(placement.cpu_milli.sum()),
        int(placement.memory_bytes.sum()),
    )


@dataclass
class World:
    """All that a cycle decides on.

    `jobs` may be given as any mapping; what is put in is watched, so that `waiting` is always right.
    """

    pool: Pool
    queues: dict[str, Queue] = field(default_factory=dict)
    jobs: Jobs = field(default_factory=dict)  # type: ignore[assignment]
    by_queue: dict[str, Amount] = field(default_factory=dict)
    by_tenant: dict[str, Amount] = field(default_factory=dict)
    misfits: dict[Demand, tuple[int, Refusal]] = field(default_factory=dict)
    """Demands that found no place: the pool's growth count at that time, and why."""
    verdicts: dict[Demand, Refusal | None] = field(default_factory=dict)
    """Whether a demand could ever fit; valid for this pool."""
    promises: dict[str, Promise] = field(default_factory=dict)
    """Starts that were promised to waiting jobs, and the places kept for them."""
    windows: dict[str, Window] = field(default_factory=dict)
    """Reservations and maintenance."""
    run_times: RunTimes = field(default_factory=RunTimes)
    ended: dict[str, tuple[JobState, bool]] = field(default_factory=dict)
    """How jobs that are gone ended, and whether they ever ran: for those that depend on them."""
    array_running: dict[str, int] = field(default_factory=dict)
    """Placed jobs of each array."""
    waiting: Waiting = field(init=False, default_factory=Waiting)
    """The queued jobs, in lanes of like ones."""
    empty: Pool = field(init=False)
    """The same nodes, all alive and nothing held."""
    totals: Totals = field(init=False)

    def __post_init__(self) -> None:
        self.empty = Pool(self.pool.facts)
        self.empty.up[:] = True
        self.totals = self.pool.totals()

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "jobs":
            self.__dict__["waiting"] = Waiting()
            watched = Jobs(self.changed)
            self.__dict__["jobs"] = watched
            watched.update(value)
            return
        if name == "waiting" and "waiting" in self.__dict__:
            return  # made with the jobs
        self.__dict__[name] = value

    def changed(self, job: Job, what: str) -> None:
        """Notes that a job came, went, or has another value of a decisive attribute."""
        gone = what == "gone"
        self.waiting.refresh(job, gone=gone)
        if not job.waits or gone:
            self.promises.pop(job.id, None)
        if gone and job.state in FINAL:
            self.ended[job.id] = job.state, job.started_at is not None
            if len(self.ended) > MOST_ENDED:
                del self.ended[next(iter(self.ended))]

    def pending(self) -> Iterable[Job]:
        """The jobs that wait for a place."""
        return self.jobs.waiting()

    def holders(self) -> Iterable[Job]:
        """The jobs that hold nodes."""
        return (job for job in self.jobs.values() if job.placement is not None)

    def take(self, job: Job, placement: Placement) -> None:
        """Books a placement for a job; whole or not at all."""
        self.pool.take(placement)
        job.placement = placement
        self.waiting.refresh(job)
        self._count(job, placement, 1)

    def give(self, job: Job) -> Placement:
        """Gives a job's placement back and returns it."""
        placement = job.placement
        if placement is None:
            raise ValueError(f"job {job.id} holds nothing")
        self.pool.give(placement)
        job.placement = None
        self.waiting.refresh(job, gone=job.id not in self.jobs)
        self._count(job, placement, -1)
        return placement

    def _count(self, job: Job, placement: Placement, sign: int) -> None:
        amount = amount_of(placement)
        if job.array is not None:
            self.array_running[job.array] = self.array_running.get(job.array, 0) + sign
        self.by_queue.setdefault(job.queue, Amount()).add(amount, sign)
        self.by_tenant.setdefault(job.tenant, Amount()).add(amount, sign)
