"""What a trace says: jobs that arrive, run for a while and leave, and quotas that change meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

from l2_aistation.core.demand import Demand, TaskDemand


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace.  Times are seconds of the trace's own clock.

    `tasks` 0 leaves the shape to the cluster: on one node where it fits, else over whole nodes.
    CPU and memory are amounts of one task.  `share_milli` is the part of
    one accelerator that a task wants, in thousandths (0: all of it); `models` are those it may run on.
    """

    id: str
    submit_s: float
    duration_s: float
    accelerators: int
    tasks: int = 0
    queue: str = "default"
    user: str = ""
    name: str = ""
    priority: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    model: str | None = None
    share_milli: int = 0
    models: tuple[str, ...] = ()
    limit_s: float | None = None


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """From `at_s` on, a queue is sure of so many accelerators."""

    at_s: float
    queue: str
    accelerators: int


@dataclass(slots=True)
class Trace:
    """Jobs in the order of submission, and quota changes in the order of time."""

    name: str
    jobs: list[TraceJob]
    quotas: list[QuotaChange] = field(default_factory=list)

    def head(self, count: int) -> Trace:
        """The first `count` jobs alone."""
        return Trace(self.name, self.jobs[:count], self.quotas)


def demand_of(job: TraceJob, widest: int) -> Demand:
    """The job's gang on a cluster whose largest node has `widest` accelerators.

    A gang that fits on a node is one task there; a larger one is made of equal tasks as large as a
    node allows (16 of 8 a node: 2 x 8; 12: 3 x 4).
    """
    tasks = job.tasks
    if not tasks:
        tasks = 1 if job.accelerators <= widest else job.accelerators // gcd(job.accelerators, widest)
    group = TaskDemand(
        task="worker",
        count=tasks,
        cpu_milli=job.cpu_milli,
        memory_bytes=job.memory_bytes,
        accelerators=job.accelerators // tasks,
        model=job.model,
        share_milli=job.share_milli,
        models=job.models,
    )
    return Demand((group,), tasks)
