"""What a cycle sees: queues, jobs and who holds how much."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from .demand import Demand
from .pool import Placement, Pool, Totals
from .refusal import Refusal
from .states import HOLDING, JobState


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


@dataclass(slots=True)
class Job:
    """A job as the scheduler knows it.  `placement` is held exactly in the `HOLDING` states."""

    id: str
    tenant: str
    queue: str
    priority: int
    submitted_at: float
    demand: Demand
    state: JobState = JobState.QUEUED
    placement: Placement | None = None
    started_at: float | None = None
    time_s: float | None = None
    name: str = ""
    owner: str = ""
    version: int = 1
    attempt: int = 0
    target: JobState | None = None
    why: str = ""
    spec_text: str = ""
    spec_digest: str = ""
    ended_at: float | None = None
    cause: str | None = None

    @property
    def holds(self) -> bool:
        """Whether the job has its nodes."""
        return self.state in HOLDING and self.placement is not None


def amount_of(placement: Placement) -> Amount:
    """What a placement holds."""
    return Amount(
        int(np.bitwise_count(placement.bits).sum()),
        int(placement.cpu_milli.sum()),
        int(placement.memory_bytes.sum()),
    )


@dataclass(slots=True)
class World:
    """All that a cycle decides on."""

    pool: Pool
    queues: dict[str, Queue] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    by_queue: dict[str, Amount] = field(default_factory=dict)
    by_tenant: dict[str, Amount] = field(default_factory=dict)
    misfits: dict[Demand, tuple[int, Refusal]] = field(default_factory=dict)
    """Demands that found no place: the pool's growth count at that time, and why."""
    verdicts: dict[Demand, Refusal | None] = field(default_factory=dict)
    """Whether a demand could ever fit; valid for this pool."""
    empty: Pool = field(init=False)
    """The same nodes, all alive and nothing held."""
    totals: Totals = field(init=False)

    def __post_init__(self) -> None:
        self.empty = Pool(self.pool.facts)
        self.empty.up[:] = True
        self.totals = self.pool.totals()

    def pending(self) -> Iterable[Job]:
        """The jobs that wait for a place."""
        return (job for job in self.jobs.values() if job.state is JobState.QUEUED)

    def holders(self) -> Iterable[Job]:
        """The jobs that hold nodes."""
        return (job for job in self.jobs.values() if job.placement is not None)

    def take(self, job: Job, placement: Placement) -> None:
        """Books a placement for a job; whole or not at all."""
        self.pool.take(placement)
        job.placement = placement
        self._count(job, placement, 1)

    def give(self, job: Job) -> Placement:
        """Gives a job's placement back and returns it."""
        placement = job.placement
        if placement is None:
            raise ValueError(f"job {job.id} holds nothing")
        self.pool.give(placement)
        job.placement = None
        self._count(job, placement, -1)
        return placement

    def _count(self, job: Job, placement: Placement, sign: int) -> None:
        amount = amount_of(placement)
        self.by_queue.setdefault(job.queue, Amount()).add(amount, sign)
        self.by_tenant.setdefault(job.tenant, Amount()).add(amount, sign)
