"""A job as the scheduler knows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .demand import Demand
from .pool import Placement
from .states import HOLDING, JobState

DECISIVE = frozenset(
    {
        "state",
        "queue",
        "priority",
        "started_at",
        "ran_s",
        "time_s",
        "last_checkpoint_at",
        "preemptible",
        "promised_at",
    }
)
"""Attributes that a decision depends on and that change while a job lives."""

NEVER = float("inf")


@dataclass(slots=True, eq=False)
class Job:
    """A job as the scheduler knows it.  `placement` is held exactly in the `HOLDING` states.

    Times are seconds since the epoch.  `ran_s` is what earlier attempts ran; `promised_at` the start
    that was promised when the job was found to wait, and `promise` why it is not the first one;
    `planned_until` the end that was planned when it was placed.
    """

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
    labels: dict[str, str] = field(default_factory=dict)
    preemptible: bool = True
    expected_s: float | None = None
    not_before: float | None = None
    depends_on: tuple[tuple[str, str], ...] = ()
    reservation: str | None = None
    array: str | None = None
    array_index: int | None = None
    most_running: int | None = None
    ran_s: float = 0.0
    last_checkpoint_at: float | None = None
    promised_at: float | None = None
    promise: str = ""
    planned_until: float | None = None
    watcher: Callable[[Job, str], None] | None = field(default=None, repr=False)
    """Told of every change of a decisive attribute while the job is in a world."""

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name in DECISIVE:
            try:
                watcher = self.watcher
            except AttributeError:  # while it is being made
                return
            if watcher is not None:
                watcher(self, name)

    @property
    def holds(self) -> bool:
        """Whether the job has its nodes."""
        return self.state in HOLDING and self.placement is not None

    @property
    def waits(self) -> bool:
        """Whether the job is queued and has no place yet."""
        return self.state is JobState.QUEUED and self.placement is None

    def lost_work_s(self, now: float) -> float:
        """Seconds of work that an eviction now would throw away."""
        if self.started_at is None or self.placement is None:
            return 0.0
        return max(now - max(self.started_at, self.last_checkpoint_at or self.started_at), 0.0)

    def attained_s(self, now: float) -> float:
        """Seconds that the job has run so far, earlier attempts included."""
        if self.started_at is None or self.placement is None:
            return self.ran_s
        return self.ran_s + max(now - self.started_at, 0.0)

    def limit_at(self, now: float) -> float:
        """When the time limit of the attempt ends it, started now if it does not run; infinite without."""
        if self.time_s is None:
            return NEVER
        begun = now if self.placement is None or self.started_at is None else self.started_at
        return begun + self.time_s


class Jobs(dict[str, Job]):
    """Jobs by id; whoever keeps books about them is told of each that comes or goes."""

    def __init__(self, told: Callable[[Job, str], None]) -> None:
        super().__init__()
        self.told = told

    def __setitem__(self, name: str, job: Job) -> None:
        if name in self:
            del self[name]
        super().__setitem__(name, job)
        job.watcher = self.told
        self.told(job, "come")

    def __delitem__(self, name: str) -> None:
        job = self[name]
        super().__delitem__(name)
        job.watcher = None
        self.told(job, "gone")

    def pop(self, name: str, *default: Any) -> Any:
        """Takes a job out."""
        if name not in self and default:
            return default[0]
        job = self[name]
        del self[name]
        return job

    def update(self, others: Any = (), /, **more: Job) -> None:
        """Takes others in."""
        for name, job in dict(others, **more).items():
            self[name] = job

    def clear(self) -> None:
        """Takes all out."""
        for name in list(self):
            del self[name]

    def setdefault(self, name: str, job: Job | None = None) -> Job:
        """The job of that name, taken in where there is none."""
        if name not in self:
            if job is None:
                raise ValueError("no job to take in")
            self[name] = job
        return self[name]

    def popitem(self) -> tuple[str, Job]:
        """Takes the last one out."""
        name = next(reversed(self))
        return name, self.pop(name)

    def waiting(self) -> Iterator[Job]:
        """Those that are queued and have no place."""
        return (job for job in self.values() if job.waits)
