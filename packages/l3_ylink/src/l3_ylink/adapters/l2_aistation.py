"""Jobs through the platform below: a job-spec submitted over REST, the job-record's digest back."""

from __future__ import annotations

import time
from typing import Any, cast

from l2_aistation.api import Aistation, CheckpointPolicy, JobSpec, TaskGroup, progress

from l3_ylink import __version__
from l3_ylink._kit.documents import Producer
from l3_ylink.ports import JobOutcome, JobRequest, ProgressReporter

POLL_S = 0.5
FINAL = ("completed", "failed", "cancelled")


class AistationRunner:
    """Submits jobs to the platform at `url`; `token` says for which tenant."""

    def __init__(self, url: str | None = None, token: str | None = None, *, queue: str = "default") -> None:
        self.client, self.queue = Aistation(url, token), queue

    def run(self, request: JobRequest) -> AistationJob:
        """Submits the job and returns at once."""
        job = self.client.submit(job_spec(request, self.queue))
        return AistationJob(self.client, str(job["id"]))


class AistationJob:
    """A submitted job.  It outlives this process: the platform starts, heals and records it."""

    def __init__(self, client: Aistation, job: str) -> None:
        self._client, self._job = client, job

    @property
    def id(self) -> str:
        return self._job

    def wait(self, timeout_s: float | None = None) -> JobOutcome | None:
        """The outcome, or None when it is not over after `timeout_s`."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            view = self._client.job(self._job)
            if view["state"] in FINAL:
                return self._outcome(view)
            if until is not None and time.monotonic() + POLL_S > until:
                time.sleep(max(0.0, until - time.monotonic()))
                return None
            time.sleep(POLL_S)

    def cancel(self) -> None:
        """Cancels the job."""
        self._client.cancel(self._job)

    def _outcome(self, view: dict[str, Any]) -> JobOutcome:
        record = self._client.record(self._job)
        if view["state"] == "completed":
            return JobOutcome("completed", record_digest=record.digest())
        cause = next((attempt.cause for attempt in reversed(record.attempts) if attempt.cause), view["state"])
        fault = record.faults[-1] if record.faults else None
        evidence = "; ".join(fault.evidence[:3]) if fault else ""
        why = f"{cause}: {evidence}" if evidence else str(cause)
        by_user = fault is not None and fault.category.startswith("user")
        return JobOutcome(
            view["state"], exit_code=2 if by_user else 1, why=why, record_digest=record.digest()
        )


def job_spec(request: JobRequest, queue: str = "default") -> JobSpec:
    """The request in the platform's words."""
    group = TaskGroup(
        count=request.count,
        command=list(request.command),
        environment=dict(request.environment),
        one_per_node=request.one_per_node,
    )
    kept = request.checkpoint
    checkpoint = (
        CheckpointPolicy(path=kept.path, every_steps=kept.every_steps, keep=kept.keep) if kept else None
    )
    return JobSpec(
        producer=Producer(name="l3-ylink", version=__version__).model_dump(),
        name=request.name,
        queue=queue,
        tasks=[group],
        data=list(request.inputs),
        checkpoint=checkpoint,
    )


def progress_reporter() -> ProgressReporter:
    """The platform's progress SDK, for programs that run inside one of its jobs."""
    return cast("ProgressReporter", progress)
