"""Jobs through the JobRunner port: a platform starts, heals and records the workers of a round."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from l3_ylink._kit.problems import BadInput, Conflict, Failed
from l3_ylink.ports import JobHandle, JobOutcome, JobRequest, JobRunner

from .slurm import ONE_THREAD
from .spool import Spool, Task, run_rounds

if TYPE_CHECKING:
    from l3_ylink.datakit.plan import RunPlan

LOOK_S = 0.05


class JobsEngine:
    """Workers as the ranks of a job; `shared` is the folder that nodes may mount elsewhere."""

    def __init__(self, runner: Callable[[], JobRunner], shared: Path | None = None) -> None:
        self._make, self.shared = runner, shared
        self._jobs: dict[str, JobHandle] = {}

    def run(self, plan: RunPlan, tasks: Sequence[Task], workers: int) -> Generator[Task]:
        """Submits a job and yields the replies of its ranks."""
        yield from run_rounds(self, plan, tasks, workers)

    def close(self) -> None:
        """Nothing is held between rounds."""

    def submit(self, plan: RunPlan, spool: Spool, count: int) -> str:
        """Submits a job of `count` ranks."""
        out, source = self._place(plan.folder), self._place(plan.input)
        words = ("python", "-m", "l3_ylink.datakit.engines.shard", out, spool.round, "--input", source)
        request = JobRequest(
            name=f"data-{plan.recipe.name}",
            command=words,
            count=count,
            environment=dict(ONE_THREAD),
            key=f"data-{spool.round}",
        )
        handle = self._make().run(request)
        self._jobs[handle.id] = handle
        return handle.id

    def over(self, job: str) -> bool:
        """Whether the job has ended; one that a person cancelled ends the run."""
        outcome: JobOutcome | None = self._jobs[job].wait(LOOK_S)
        if outcome is not None and outcome.state == "cancelled":
            raise Failed(f"the job {job} was cancelled", do="the same command goes on")
        return outcome is not None

    def cancel(self, job: str) -> None:
        """Ends the job, also one of a run that was killed."""
        handle = self._jobs.get(job) or self._make().find(job)
        if handle is not None:
            with contextlib.suppress(Conflict):  # it has ended meanwhile
                handle.cancel()

    def _place(self, folder: Path) -> str:
        """The folder as a worker finds it: relative to the shared folder where there is one."""
        if self.shared is None:
            return str(folder.resolve())
        try:
            return str(folder.resolve().relative_to(self.shared.resolve()))
        except ValueError as error:
            raise BadInput(
                "lies outside the shared folder", field=str(folder), do=f"put it below {self.shared}"
            ) from error
