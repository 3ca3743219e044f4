"""Tiresias-like (Gu et al., NSDI 2019): discretised two-dimensional least attained service.

Service is accelerators x seconds.  A job that has had less than the first threshold is on the first
level; those of a lower level go before those of a higher one and may take their place; inside a
level, first come first served.  Run times stay unknown.
"""

from __future__ import annotations

from bisect import bisect_right

from l2_aistation.core.cycle import Session
from l2_aistation.core.demand import Demand
from l2_aistation.core.seat import seat
from l2_aistation.core.world import Job, World

from . import Remaining, Scheme

THRESHOLDS = (3_600.0, 36_000.0)
"""Accelerator-seconds at which a job goes down a level: 1 and 10 accelerator-hours."""


class Tiresias(Scheme):
    """Levels of attained service, preemption between them."""

    name = "tiresias"
    words = "least attained service in three levels, preemptive, run times unknown"

    def open(self, world: World, remaining: Remaining) -> None:
        """Nobody waits, nobody runs."""
        super().open(world, remaining)
        self.waiting: tuple[dict[str, Job], ...] = tuple({} for _ in range(len(THRESHOLDS) + 1))
        self.had: dict[str, float] = {}
        self.since: dict[str, tuple[Job, float]] = {}
        self.actions = (self.allocate,)

    def queued(self, job: Job) -> None:
        """The job goes to the end of its level."""
        self.waiting[level(self.had.get(job.id, 0.0))][job.id] = job

    def started(self, job: Job, now: float) -> None:
        """Service is counted from now on."""
        self.since[job.id] = job, now

    def ended(self, job: Job, now: float) -> None:  # noqa: ARG002 (the protocol's words)
        """Forget it."""
        self.had.pop(job.id, None)
        del self.since[job.id]

    def service(self, job: Job, now: float) -> float:
        """Accelerator-seconds that a running job has had."""
        return self.had.get(job.id, 0.0) + job.demand.accelerators * (now - self.since[job.id][1])

    def wake(self, now: float) -> float | None:
        """When the first running job goes down a level, if somebody waits for that."""
        if not any(self.waiting):
            return None
        due = []
        for job, began in self.since.values():
            if job.demand.accelerators:
                step = level(self.service(job, now))
                if step < len(THRESHOLDS):
                    missing = THRESHOLDS[step] - self.had.get(job.id, 0.0)
                    due.append(began + missing / job.demand.accelerators)
        return min((at for at in due if at > now), default=None)

    def allocate(self, session: Session) -> None:
        """Level by level, in order of arrival; higher levels make room."""
        hopeless: set[Demand] = set()
        victims = sorted(
            ((level(self.service(job, session.now)), began, job) for job, began in self.since.values()),
            key=lambda entry: entry[:2],
        )
        for step, lane in enumerate(self.waiting):
            for job in list(lane.values()):
                if job.demand in hopeless:
                    continue
                if seat(session, job) is None or self._make_room(session, job, step, victims):
                    del lane[job.id]
                else:
                    hopeless.add(job.demand)

    def _make_room(
        self, session: Session, job: Job, step: int, victims: list[tuple[int, float, Job]]
    ) -> bool:
        """Evicts jobs of higher levels, the last started first, until the job fits; else nobody."""
        mark = session.statement.checkpoint()
        gone: list[Job] = []
        for number in range(len(victims) - 1, -1, -1):
            other_step, _, other = victims[number]
            if other_step <= step:
                break
            if other.placement is None:
                continue
            session.statement.give(other)
            gone.append(other)
            if seat(session, job) is None:
                self._note(gone, session.now)
                return True
        session.statement.rollback(mark)
        return False

    def _note(self, gone: list[Job], now: float) -> None:
        for other in gone:
            self.had[other.id] = self.service(other, now)
            del self.since[other.id]


def level(service: float) -> int:
    """The level of a job that has had so much service."""
    return bisect_right(THRESHOLDS, service)
