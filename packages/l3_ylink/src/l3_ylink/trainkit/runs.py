"""Training runs as folders: `run.json` says what a run is and how far it came.

It survives kill -9: a run that says `running` but whose supervisor is gone is `interrupted`, and
the same command goes on with it.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from l3_ylink._kit.files import atomic_write
from l3_ylink._kit.problems import BadInput, Conflict, Failed, NotFound

RUN = "run.json"
RUNNING, COMPLETED, FAILED, CANCELLED, INTERRUPTED = (
    "running",
    "completed",
    "failed",
    "cancelled",
    "interrupted",
)


@dataclass(frozen=True)
class Run:
    """One training run: what it trains (`kind` pretrain or sft), from which inputs, and its state.

    `job` is what the runner calls the attempt's job: a platform's job outlives an interruption, and
    the run then waits for it instead of starting another.
    """

    id: str
    kind: str
    folder: str
    inputs: dict[str, str]
    state: str
    attempt: int
    started_at: str
    ended_at: str | None = None
    why: str = ""
    job: str = ""
    supervisor: str = ""
    metrics: dict[str, float] = field(default_factory=dict)

    def seen(self) -> Run:
        """The run as it is now: `interrupted` when its supervisor is gone."""
        alive = self.supervisor == process_mark(int(self.supervisor.partition(":")[0] or 0))
        return self if self.state != RUNNING or alive else replace(self, state=INTERRUPTED)

    def ended(self, state: str, *, why: str = "", metrics: dict[str, float] | None = None) -> Run:
        """The run after its end."""
        return replace(self, state=state, ended_at=now(), why=why, metrics=metrics or {}, supervisor="")

    def write(self) -> Run:
        """Saves `run.json`."""
        try:
            atomic_write(Path(self.folder) / RUN, json.dumps(asdict(self), indent=1))
        except OSError as error:
            raise Failed(
                f"{self.folder}/{RUN} cannot be written: {error.strerror}", do="make room"
            ) from error
        return self


def open_run(folder: Path, kind: str, inputs: dict[str, str]) -> Run:
    """Begins a run in `folder`, or the next attempt of the one that is there.

    `inputs` maps a name to a digest; a folder with a run of other inputs, or one that is running
    now, is a `Conflict`.
    """
    folder = folder.absolute()
    if folder.exists() and not folder.is_dir():
        raise BadInput("is not a folder", field=str(folder))
    before = read_run(folder).seen() if (folder / RUN).exists() else None
    if before is None:
        run = Run(f"run-{uuid.uuid4().hex[:8]}", kind, str(folder), inputs, RUNNING, 1, now())
    else:
        _same(before, kind, inputs)
        run = _next_attempt(before, str(folder))
    return replace(run, supervisor=process_mark(os.getpid())).write()


def _next_attempt(before: Run, folder: str) -> Run:
    """The run as it goes on.  An attempt that was cut off before its job was noted is tried once more."""
    cut_off = before.state == INTERRUPTED
    attempt = before.attempt if cut_off and not before.job else before.attempt + 1
    job = before.job if cut_off else ""
    return replace(before, state=RUNNING, attempt=attempt, job=job, ended_at=None, why="", folder=folder)


def read_run(folder: Path) -> Run:
    """The run in a folder; a `BadInput` when there is none or its file is broken."""
    try:
        return Run(**json.loads((folder / RUN).read_bytes()))
    except FileNotFoundError as error:
        raise NotFound(f"no run in {folder}", do="ylink train list shows the runs") from error
    except (ValueError, TypeError) as error:
        raise BadInput(f"is not a run's file: {error}", field=str(folder / RUN)) from error


def process_mark(pid: int) -> str:
    """A process as `pid:start time`, so that a number used again is not taken for it; empty when gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return ""
    return f"{pid}:{stat.rpartition(')')[2].split()[19]}"


def now() -> str:
    """The time as RFC 3339."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _same(before: Run, kind: str, inputs: dict[str, str]) -> None:
    if before.state == RUNNING:
        raise Conflict(
            f"{before.id} is running in {before.folder}", do="wait for it, or choose another --out"
        )
    other = sorted(name for name in {*before.inputs, *inputs} if before.inputs.get(name) != inputs.get(name))
    if before.kind != kind or other:
        raise Conflict(
            f"{before.folder} holds a {before.kind} run with another {' and '.join(other) or 'kind'}",
            do="choose another --out, or go on with the same inputs",
        )
