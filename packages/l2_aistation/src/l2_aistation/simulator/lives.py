"""A simulated job: what the scheduler sees of it, and what only the simulator knows."""

from __future__ import annotations

from dataclasses import dataclass

from l2_aistation._kit.problems import BadInput
from l2_aistation.core.world import Job

from .jobs import TraceJob


@dataclass(frozen=True, slots=True)
class Costs:
    """What an eviction costs: work since the last checkpoint, and the time to stop and to start again."""

    checkpoint_s: float = 1800.0
    restart_s: float = 60.0
    stop_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("checkpoint_s", "restart_s", "stop_s"):
            if not 0 <= getattr(self, name) < 1e9 or (name == "checkpoint_s" and not self.checkpoint_s):
                raise BadInput("is out of range", field=name, do="give seconds")


@dataclass(slots=True, eq=False)
class SimulatedJob(Job):
    """A job that saves its work every `checkpoint_s`, counted from `overhead_s` after its start."""

    checkpoint_s: float = 1800.0
    overhead_s: float = 0.0

    def worked_s(self, now: float) -> float:
        """Seconds of work since it was started last."""
        return 0.0 if self.started_at is None else max(now - self.started_at - self.overhead_s, 0.0)

    def lost_work_s(self, now: float) -> float:
        """Seconds of work that an eviction now would throw away."""
        return self.worked_s(now) % self.checkpoint_s


@dataclass(slots=True)
class Life:
    """One job on its way: its `number` in the trace, the work that is safe, its `starts` so far."""

    number: int
    trace: TraceJob
    job: SimulatedJob
    accelerators: float = 0.0
    saved_s: float = 0.0
    starts: int = 0
    stopping: bool = False

    @property
    def left_s(self) -> float:
        """Seconds of work beyond what is saved."""
        return self.trace.duration_s - self.saved_s

    def remaining_s(self, now: float, restart_s: float) -> float:
        """Seconds until it ends, started now if it does not run."""
        if self.job.started_at is None:
            return (restart_s if self.starts else 0.0) + self.left_s
        return self.job.started_at + self.job.overhead_s + self.left_s - now
