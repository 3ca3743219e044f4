"""What training needs from outside: something that runs a job, and somewhere to report steps to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from l3_ylink._kit.documents import Reference


@dataclass(frozen=True)
class CheckpointRequest:
    """Where a job keeps its checkpoints (relative to the shared folder), how often, how many."""

    path: str
    every_steps: int
    keep: int = 2


@dataclass(frozen=True)
class JobRequest:
    """`count` equal tasks of one command.

    Rank, world size and rendezvous reach each task in the environment that torchrun uses.
    Relative paths in `command` are relative to the shared folder, which a task finds in
    `OGAI_SHARED_DIR`.  A first word `python` means the interpreter of the place that runs it.
    """

    name: str
    command: tuple[str, ...]
    count: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    checkpoint: CheckpointRequest | None = None
    one_per_node: bool = False
    cpu_cores: float = 1.0
    """What a scheduler reserves for each task; ranks may share a core."""
    key: str = ""
    """Names this very request, where a runner keeps jobs longer than this process lives."""
    inputs: tuple[Reference, ...] = ()
    """The documents that the job is made from: plan, data set, base model."""
    data: tuple[str, ...] = ()
    """Digests of the data sets among them, so that the job can be placed near its data."""


@dataclass(frozen=True)
class JobOutcome:
    """How a job ended.

    `exit_code` is that of the first task that failed (0: all were well; 2: bad input), `why` its
    last words, and `record_digest` that of the job-record where the runner keeps one.
    """

    state: str
    exit_code: int = 0
    why: str = ""
    record_digest: str | None = None

    @property
    def completed(self) -> bool:
        return self.state == "completed"


class JobHandle(Protocol):
    """A job that was started."""

    @property
    def id(self) -> str: ...

    def wait(self, timeout_s: float | None = None) -> JobOutcome | None:
        """The outcome, or None when the job still runs after `timeout_s` (None: however long it takes)."""
        ...

    def cancel(self) -> None:
        """Ends the job and everything that it started."""
        ...


class JobRunner(Protocol):
    """Starts jobs: on this machine, or through a scheduler."""

    def run(self, request: JobRequest) -> JobHandle:
        """Starts a job and returns at once; the same `key` again never makes a second one."""
        ...

    def find(self, job: str) -> JobHandle | None:
        """A job started before that still runs or ended well; None when it has to be started again."""
        ...


class ProgressReporter(Protocol):
    """Hears how a training program gets on; steps count from 1."""

    def step(self, number: int, *, loss: float | None = None, samples: int | None = None) -> None:
        """Step `number` is done."""
        ...

    def checkpoint(self, number: int) -> None:
        """The checkpoint taken after step `number` is durable."""
        ...

    def resumed(self, number: int) -> None:
        """The checkpoint of step `number` is loaded; training goes on after it."""
        ...
