"""Jobs through the platform below: a job-spec submitted over REST, the job-record's digest back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, cast

from l2_aistation.api import Aistation, CheckpointPolicy, JobRecord, JobSpec, Resources, TaskGroup, progress
from l2_aistation.api import Problem as PlatformProblem

from l3_ylink import __version__
from l3_ylink._kit import problems
from l3_ylink._kit.documents import Producer
from l3_ylink.ports import JobOutcome, JobRequest, ProgressReporter

POLL_S = 0.5
FINAL = ("completed", "failed", "cancelled")
PATIENCE_S = 60.0
EVIDENCE = 3
"""Lines of a fault's evidence that are told."""


class AistationRunner:
    """Submits jobs to the platform at `url`; `token` says for which tenant."""

    def __init__(self, url: str | None = None, token: str | None = None, *, queue: str = "default") -> None:
        self.url, self.token, self.queue = url, token, queue

    def run(self, request: JobRequest) -> AistationJob:
        """Submits the job and returns at once."""
        spec = job_spec(request, self.queue)
        with self._client() as client:
            job = client.submit(spec, key=request.key or None)
        return AistationJob(self, str(job["id"]))

    def find(self, job: str) -> AistationJob | None:
        """A job that an interrupted run left at work (or done) on the platform."""
        try:
            state = self.view(job)["state"]
        except problems.NotFound:
            return None
        return None if state in ("failed", "cancelled") else AistationJob(self, job)

    def view(self, job: str) -> dict[str, Any]:
        """The job as the platform shows it."""
        with self._client() as client:
            return client.job(job)

    def record(self, job: str) -> JobRecord:
        """What became of the job."""
        with self._client() as client:
            return client.record(job)

    def cancel(self, job: str) -> None:
        """Ends the job."""
        with self._client() as client:
            client.cancel(job)

    @contextlib.contextmanager
    def _client(self) -> Iterator[Aistation]:
        """A connection for one question; the platform's problems become this layer's."""
        try:
            with Aistation(self.url, self.token) as client:
                yield client
        except PlatformProblem as error:
            kind = getattr(problems, type(error).__name__, problems.Failed)
            raise kind(error.what, why=error.why, do=error.do, field=error.field) from error


class AistationJob:
    """A submitted job.  It outlives this process: the platform starts, heals and records it."""

    def __init__(self, runner: AistationRunner, job: str) -> None:
        self.id = job
        self._runner, self._heard = runner, time.monotonic()

    def wait(self, timeout_s: float | None = None) -> JobOutcome | None:
        """The outcome, or None when it is not over after `timeout_s`."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            state = self._state()
            if state in FINAL:
                return self._outcome(state)
            if until is not None and time.monotonic() + POLL_S > until:
                time.sleep(max(0.0, until - time.monotonic()))
                return None
            time.sleep(POLL_S)

    def cancel(self) -> None:
        """Cancels the job."""
        self._runner.cancel(self.id)

    def _state(self) -> str:
        """The job's state; a platform that restarts is given time to come back."""
        try:
            state = str(self._runner.view(self.id)["state"])
        except problems.Unavailable:
            if time.monotonic() - self._heard > PATIENCE_S:
                raise
            return "unknown"
        self._heard = time.monotonic()
        return state

    def _outcome(self, state: str) -> JobOutcome:
        record = self._runner.record(self.id)
        if state == "completed":
            return JobOutcome("completed", record_digest=record.digest())
        fault = record.faults[-1] if record.faults else None
        cause = fault.label if fault else state
        evidence = "; ".join(fault.evidence[:EVIDENCE]) if fault else ""
        theirs_to_fix = fault is not None and fault.action == "fix"
        return JobOutcome(
            state,
            exit_code=problems.BadInput.exit_code if theirs_to_fix else problems.Failed.exit_code,
            why=f"{cause}: {evidence}" if evidence else cause,
            record_digest=record.digest(),
        )


def job_spec(request: JobRequest, queue: str = "default") -> JobSpec:
    """The request in the platform's words."""
    group = TaskGroup(
        count=request.count,
        command=list(request.command),
        environment=dict(request.environment),
        one_per_node=request.one_per_node,
        resources=Resources(cpu_cores=request.cpu_cores),
    )
    kept = request.checkpoint
    checkpoint = (
        CheckpointPolicy(path=kept.path, every_steps=kept.every_steps, keep=kept.keep) if kept else None
    )
    return JobSpec(
        producer=Producer(name="l3-ylink", version=__version__).model_dump(),
        inputs=[reference.model_dump(by_alias=True) for reference in request.inputs],
        name=request.name,
        queue=queue,
        tasks=[group],
        data=list(request.data),
        checkpoint=checkpoint,
    )


def progress_reporter() -> ProgressReporter:
    """The platform's progress SDK, for programs that run inside one of its jobs."""
    return cast("ProgressReporter", progress)
