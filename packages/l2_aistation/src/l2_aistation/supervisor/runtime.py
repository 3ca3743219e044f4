"""The agent's side of a node: takes commands, starts supervisors, hands their events on.

All of it can be thrown away and made again from disk: a restarted agent goes on where it was.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from l2_aistation._kit.problems import BadInput
from l2_aistation.core.events import (
    AttendTasks,
    Command,
    EndTasks,
    Event,
    StartTasks,
    TaskExited,
    TasksEnded,
    TaskStarted,
    WarmTasks,
)

from . import processes
from .environment import memory_of, without_secrets
from .folder import JobFolder
from .journal import Journal, Line, Reader

KEEP_S = 3600.0
"""A finished job's folder stays for so long: it answers commands that come late or twice."""

_JOB = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")


class Delivery(NamedTuple):
    """An event with its place in its source's order; acknowledged by `source` and `number`."""

    source: str
    number: int
    event: Event


class _Job:
    """What the node knows of one job: read from its journal."""

    def __init__(self, path: Path, node: str) -> None:
        self.folder = JobFolder(path)
        self.name = path.name
        self.node = node
        self.reader = Reader(self.folder.journal_path)
        self.pid: int | None = None
        self.lines: list[Line] = []
        self.acknowledged = self.folder.number("acknowledged")
        self.started: dict[int, dict[int, TaskStarted]] = {}
        self.exited: dict[int, dict[int, TaskExited]] = {}
        self.ended: dict[int, TasksEnded] = {}

    def starting(self) -> bool:
        """Whether a supervisor that this process started still runs (it may not listen yet)."""
        if self.pid is not None:
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                    return True
            self.pid = None
        return False

    def waits_for_a_supervisor(self) -> bool:
        """Whether the newest attempt should run and nobody has begun it."""
        newest = max(self.folder.attempts(), default=0)
        names = {path.name for path in self.folder.attempt(newest).iterdir()} if newest else set()
        return "start.json" in names and not names & {"begun", "end.json"}

    def acknowledge(self, number: int) -> None:
        """The platform has the lines up to `number`."""
        self.acknowledged = max(number, self.acknowledged)
        self.folder.set_number("acknowledged", number)
        self.lines = [line for line in self.lines if line.number > number]

    def read(self) -> None:
        """Takes in what the supervisor wrote since the last time."""
        for line in self.reader.new():
            if line.number > self.acknowledged:
                self.lines.append(line)
            event = line.event
            if isinstance(event, TaskStarted):
                self.started.setdefault(event.attempt, {})[event.rank] = event
            elif isinstance(event, TaskExited):
                self.exited.setdefault(event.attempt, {})[event.rank] = event
            elif isinstance(event, TasksEnded):
                self.ended[event.attempt] = event

    def living(self) -> list[int]:
        """Attempts with ranks that have started and not ended."""
        return [
            number
            for number, ranks in self.started.items()
            if number not in self.ended and set(ranks) - set(self.exited.get(number, {}))
        ]

    def append(self, *events: Event) -> None:
        """Adds events in the supervisor's place; only while none lives."""
        journal = Journal(self.folder.journal_path)
        for event in events:
            journal.append(event)
        journal.close()
        self.read()


class NodeRuntime:
    """One node's jobs.  Not thread-safe: one thread calls it."""

    def __init__(self, node: str, folder: Path, shared: Path) -> None:
        self.node, self._folder, self._shared = node, folder, shared
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._nonce = secrets.token_hex(4)
        self._jobs = {
            path.name: _Job(path, node)
            for path in self._folder.iterdir()
            if path.is_dir() and _JOB.match(path.name)
        }
        self._answers: list[Delivery] = []
        self._answered = 0

    def handle(self, command: Command) -> None:
        """Does what the platform asks; the same command again does no harm."""
        job = self._job(command.job)
        job.read()
        if isinstance(command, StartTasks):
            self._start(job, command)
        elif isinstance(command, WarmTasks):
            if job.folder.put(command.attempt, "warm", command):
                self._wake(job)
        elif isinstance(command, EndTasks):
            self._end(job, command)
        else:
            self._attend(job, command)

    def _job(self, name: str) -> _Job:
        if not _JOB.match(name):
            raise BadInput(f"{name!r} cannot name a job", field="job")
        if name not in self._jobs:
            self._jobs[name] = _Job(self._folder / name, self.node)
        return self._jobs[name]

    def _start(self, job: _Job, command: StartTasks) -> None:
        numbers = job.folder.attempts()
        stale = max(numbers, default=0) > command.attempt or job.folder.number("release") >= command.attempt
        if stale or (job.folder.attempt(command.attempt) / "end.json").exists():
            return
        if job.folder.put(command.attempt, "start", command):
            self._wake(job)
        elif command.attempt in job.started or command.attempt in job.exited:
            self._repeat(job, command.attempt, [task.rank for task in command.tasks])
        else:
            self._wake(job)

    def _end(self, job: _Job, command: EndTasks) -> None:
        if command.attempt in job.ended:
            self._answer(job.ended[command.attempt])
        else:
            job.folder.put(command.attempt, "end", command)
            if job.folder.get(command.attempt, "start") is None:
                self._answer(TasksEnded(command.job, command.attempt, self.node, time.time()))
        if not command.keep_warm:
            job.folder.set_number("release", command.attempt)
        job.folder.wake()

    def _attend(self, job: _Job, command: AttendTasks) -> None:
        self._repeat(job, command.attempt, command.ranks)
        if command.attempt in job.ended:
            self._answer(job.ended[command.attempt])
            return
        if job.folder.get(command.attempt, "start") is None:
            for rank in command.ranks:
                self._answer(
                    _lost(
                        command.job, command.attempt, self.node, rank, "this node does not know the attempt"
                    )
                )

    def _repeat(self, job: _Job, attempt: int, ranks: Any) -> None:
        for rank in ranks:
            for known in (job.started, job.exited):
                event = known.get(attempt, {}).get(rank)
                if event is not None:
                    self._answer(event)

    def _answer(self, event: Event) -> None:
        self._answered += 1
        self._answers.append(Delivery(f"~{self._nonce}", self._answered, event))

    def _wake(self, job: _Job) -> None:
        if job.folder.wake() or job.starting():
            return
        log = job.folder.path / "supervisor.log"
        command = [sys.executable, "-P", "-m", "l2_aistation.supervisor", str(job.folder.path)]
        output = (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        job.pid = os.posix_spawn(  # not subprocess: this child is meant to outlive us
            sys.executable,
            [*command, "--shared", str(self._shared), "--node", self.node],
            {**without_secrets(os.environ), processes.MARK: job.folder.mark},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                output,
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )

    def living(self) -> tuple[tuple[str, int], ...]:
        """The (job, attempt) pairs with ranks alive on this node."""
        return tuple((job.name, number) for job in self._jobs.values() for number in job.living())

    def events(self) -> Iterator[Delivery]:
        """What the platform does not have yet, each source in its order; the same until acknowledged."""
        for job in self._jobs.values():
            job.read()
            for line in job.lines:
                yield Delivery(f"{job.name}/{job.folder.identity}", line.number, line.event)
        yield from list(self._answers)

    def acknowledge(self, source: str, number: int) -> None:
        """The platform has all events of `source` up to `number`."""
        if source.startswith("~"):
            self._answers = [answer for answer in self._answers if answer.number > number]
            return
        job = self._jobs.get(source.partition("/")[0])
        if job is not None:
            job.acknowledge(number)

    def tend(self) -> None:
        """Cleans up after supervisors that were killed, and forgets jobs that are long over."""
        for job in list(self._jobs.values()):
            if job.starting() or job.folder.is_supervised():
                continue
            if job.waits_for_a_supervisor():  # the last one left in the moment when a start came
                self._wake(job)
            else:
                self._bury(job)

    def _bury(self, job: _Job) -> None:
        with job.folder.supervised() as free:
            if not free:
                return
            job.read()
            for number in job.folder.attempts():
                self._bury_attempt(job, number)
        newest = job.folder.attempt(max(job.folder.attempts(), default=0))
        with contextlib.suppress(OSError):
            if not job.lines and time.time() - newest.stat().st_mtime > KEEP_S and not job.living():
                shutil.rmtree(memory_of(job.folder.mark), ignore_errors=True)
                shutil.rmtree(job.folder.path)
                del self._jobs[job.name]

    def _bury_attempt(self, job: _Job, number: int) -> None:
        """Tells the end of an attempt whose supervisor cannot."""
        start = job.folder.get(number, "start")
        if start is None or number in job.ended:
            return
        ends = job.folder.get(number, "end") is not None
        silent = [task.rank for task in start.tasks if task.rank not in job.exited.get(number, {})]
        if not silent and not ends:
            return
        if not processes.kill_marked(job.folder.mark):
            return  # the next round tries again
        if ends:
            job.append(TasksEnded(job.name, number, self.node, time.time()))
        else:
            why = "the supervisor of this node was killed; its ranks went with it"
            job.append(*(_lost(job.name, number, self.node, rank, why) for rank in silent))


def _lost(job: str, attempt: int, node: str, rank: int, why: str) -> TaskExited:
    return TaskExited(job, attempt, node, rank, time.time(), lost=True, tail=(why,))
