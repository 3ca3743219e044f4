"""A round of tasks as files in the run's folder: what batch schedulers need instead of a pipe.

.spool/ROUND/tasks.json         the tasks; a worker that finds none any more ends
.spool/ROUND/started-3          worker 3 has begun
.spool/ROUND/answers/17.json    the reply to task 17: written whole, it is the task's completion mark
.spool/ROUND/job                what the scheduler calls the round
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from l3_ylink._kit.files import atomic_write
from l3_ylink._kit.problems import Failed

from .crash import after_crash

if TYPE_CHECKING:
    from l3_ylink.datakit.plan import RunPlan

FOLDER = ".spool"
SOONEST_S = 0.1
LATEST_S = 2.0
"""How often the folder is looked at: often at first, less when nothing comes."""
GRACE_S = 10.0
"""For workers with nothing left to do to end."""

Task = dict[str, Any]


class Spool:
    """One round."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.round = folder.name

    @classmethod
    def make(cls, run: Path, tasks: Sequence[Task]) -> Spool:
        """A new round with these tasks."""
        spool = cls(run / FOLDER / secrets.token_hex(6))
        (spool.folder / "answers").mkdir(parents=True)
        atomic_write(spool.folder / "tasks.json", json.dumps(list(tasks)))
        return spool

    def tasks(self) -> list[Task]:
        """The tasks; none when the round is over."""
        try:
            found: list[Task] = json.loads((self.folder / "tasks.json").read_bytes())
        except FileNotFoundError:
            return []
        return found

    @property
    def open(self) -> bool:
        """Whether anyone still waits for answers."""
        return (self.folder / "tasks.json").exists()

    def start(self, number: int) -> None:
        """Notes that a worker has begun."""
        (self.folder / f"started-{number}").touch()

    @property
    def started(self) -> bool:
        """Whether any worker has begun."""
        return any(self.folder.glob("started-*"))

    def answered(self) -> set[int]:
        """The tasks with a reply."""
        return {int(path.stem) for path in (self.folder / "answers").glob("[0-9]*.json")}

    def answer(self, number: int, reply: Task) -> None:
        """Commits a task's reply."""
        atomic_write(self.folder / "answers" / f"{number}.json", json.dumps(reply))

    def reply(self, number: int) -> Task:
        """A task's reply."""
        found: Task = json.loads((self.folder / "answers" / f"{number}.json").read_bytes())
        return found

    def log(self) -> str:
        """The end of what the workers printed."""
        texts = [path.read_text("utf-8", "replace").strip() for path in sorted(self.folder.glob("*.log"))]
        return "\n".join(text for text in texts if text)[-2_000:]

    def close(self) -> None:
        """Ends the round: workers that are still there end before their next task."""
        (self.folder / "tasks.json").unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.folder.parent.rmdir()


class Batch(Protocol):
    """A scheduler that starts `count` workers for a round."""

    def submit(self, plan: RunPlan, spool: Spool, count: int) -> str:
        """Submits the workers; the scheduler's name for them."""
        ...

    def over(self, job: str) -> bool:
        """Whether none of the workers runs or waits any more."""
        ...

    def cancel(self, job: str) -> None:
        """Ends the workers."""
        ...


def run_rounds(batch: Batch, plan: RunPlan, tasks: Sequence[Task], workers: int) -> Generator[Task]:
    """Rounds until every task has its reply; a worker that dies costs the task it was at, once more."""
    _end_leftovers(batch, plan.folder)
    todo = list(tasks)
    while todo:
        spool = Spool.make(plan.folder, todo)
        count = min(workers, len(todo))
        try:
            job = batch.submit(plan, spool, count)
            atomic_write(spool.folder / "job", job)
            yield from _replies(batch, job, spool, len(todo))
            todo = _left(plan.folder, spool, todo, count)
        finally:
            spool.close()


def _replies(batch: Batch, job: str, spool: Spool, whole: int) -> Generator[Task]:
    seen: set[int] = set()
    wait = SOONEST_S
    try:
        while len(seen) < whole:
            over = batch.over(job)  # asked first: what is there afterwards is all that will come
            fresh = sorted(spool.answered() - seen)
            for number in fresh:
                seen.add(number)
                yield spool.reply(number)
            if over:
                return
            wait = SOONEST_S if fresh else min(wait * 1.5, LATEST_S)
            time.sleep(wait if len(seen) < whole else 0)
        _end_by_themselves(batch, job)
    finally:
        if not batch.over(job):
            batch.cancel(job)


def _end_by_themselves(batch: Batch, job: str) -> None:
    """Workers with nothing left to do end; a job that is cancelled in that moment looks like a fault."""
    until = time.monotonic() + GRACE_S
    while not batch.over(job) and time.monotonic() < until:
        time.sleep(SOONEST_S)


def _left(run: Path, spool: Spool, tasks: list[Task], count: int) -> list[Task]:
    """The tasks without a reply; those at which a worker died are marked."""
    missing = [number for number in range(len(tasks)) if number not in spool.answered()]
    if missing and not spool.started:
        raise Failed(
            "the scheduler ended the workers before any had begun",
            why=spool.log(),
            do="look at the scheduler's log; the same command goes on",
        )
    suspects = {next((n for n in missing if n % count == worker), -1) for worker in range(count)}
    return [after_crash(run, tasks[n]) if n in suspects else tasks[n] for n in missing]


def _end_leftovers(batch: Batch, run: Path) -> None:
    """Rounds of a run that was killed: their workers would do what this one does again."""
    for folder in (run / FOLDER).glob("*/"):
        with contextlib.suppress(OSError):
            batch.cancel((folder / "job").read_text("utf-8"))
        Spool(folder).close()
