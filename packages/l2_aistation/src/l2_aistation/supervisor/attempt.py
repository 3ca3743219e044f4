"""One attempt on one node: its ranks from start to the last process's end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from l2_aistation.core.events import (
    CheckpointSaved,
    Event,
    Resumed,
    StartTasks,
    StepReported,
    TaskExited,
    TasksEnded,
    TaskStalled,
    TaskStarted,
)
from l2_aistation.core.stepwatch import StepWatch

from . import environment, processes
from .journal import Journal
from .kernel import KernelLog
from .logs import LogCopier, SharedFolder, tail
from .rank import Rank
from .warm import ForkServer

TAIL_LINES = 200
STOPPED_S = 1.0
"""A rank that is stopped (SIGSTOP) for so long will not come back by itself."""

_OTHERS_EVERY_S = 1.0
_MOST_AT_ONCE = 20
_KILL_AGAIN_S = 0.05


class Attempt:
    """Starts, watches and ends the ranks of one attempt; everything it sees goes to the journal."""

    def __init__(self, start: StartTasks, folder: Path, shared: Path, journal: Journal, mark: str) -> None:
        self.number = start.attempt
        self.over = False
        self.ranks = [Rank(task, folder) for task in start.tasks]
        self._start, self._shared, self._journal, self._mark = start, shared, journal, mark
        self._folder = folder
        self._watch = StepWatch(start.hang_s)
        self._kernel = KernelLog()
        logs = {rank.rank: rank.log for rank in self.ranks}
        self._copier = LogCopier(SharedFolder(shared, start.job), start.attempt, logs)
        self._kill_at: float | None = None
        self._told: dict[int, float] = {}
        self._stopped: set[int] = set()

    def environment_of(self, rank: Rank) -> dict[str, str]:
        """The whole environment of a rank."""
        return environment.of_rank(
            self._start, rank.launch, shared=self._shared, steps=rank.steps, mark=self._mark
        )

    def start(self, server: ForkServer | None) -> None:
        """Starts every rank; one that cannot start counts as exited with 127."""
        self._copier.start()
        if self._start.peers:
            (self._folder / environment.HOSTFILE).write_text(environment.hostfile_of(self._start), "utf-8")
        for rank in self.ranks:
            try:
                rank.start(self.environment_of(rank), self._shared, server)
            except OSError as error:
                rank.exited, rank.code = True, 127
                why = f"cannot start {rank.launch.command[0]}: {error}"
                if not self._shared.is_dir():
                    why = f"the shared folder {self._shared} is not there"
                self._tell(TaskExited, rank, code=127, tail=(why,))
            else:
                self._tell(TaskStarted, rank, pid=rank.pid)

    def _tell(self, event_type: type[Any], rank: Rank, **values: Any) -> None:
        at = values.pop("at", time.time())
        event: Event = event_type(
            job=self._start.job, attempt=self.number, node=self._start.node, rank=rank.rank, at=at, **values
        )
        self._journal.append(event)

    def reaped(self, pid: int, status: os.waitid_result) -> None:
        """A child of the supervisor has ended; if it was a rank, its last reports and its end are told."""
        for rank in self.ranks:
            if rank.pid == pid and not rank.exited:
                self._pass_reports(rank, last=True)
                rank.ended(status)
                if self._kill_at is None:
                    lines = self._kernel.about({pid}, killed=rank.signal == signal.SIGKILL)
                    last = tail(rank.log, TAIL_LINES) + tuple(lines)
                    self._tell(TaskExited, rank, code=rank.code, signal=rank.signal, tail=last)

    @property
    def ended_by_itself(self) -> bool:
        """Whether no rank is left."""
        return all(rank.exited for rank in self.ranks)

    def tick(self, keep: Iterable[int]) -> None:
        """Looks after the ranks; `keep` are processes below the supervisor that are not the attempt's."""
        if self.over:
            return
        for rank in self.ranks:
            if not rank.exited:
                self._pass_reports(rank)
        if self._copier.superseded.is_set():
            self.end(0.0)
        if self._kill_at is None:
            self._look_for_stalls()
        elif self.ended_by_itself or time.monotonic() >= self._kill_at:
            self._finish(keep)

    def _pass_reports(self, rank: Rank, *, last: bool = False) -> None:
        lines = rank.reports()
        steps = [line for line in lines if line.get("what") == "step"]
        for line in lines:
            if line.get("what") == "step":
                self._watch.step(
                    rank.rank, line["step"], _number(line, "at", time.time()), _number(line, "loss", None)
                )
            else:
                kind = {"checkpoint": CheckpointSaved, "resumed": Resumed}.get(str(line.get("what")))
                if kind is not None:
                    self._tell(kind, rank, step=line["step"], at=_number(line, "at", time.time()))
        for line in self._worth_telling(rank, steps, last=last):
            samples = _number(line, "samples", None)
            self._tell(
                StepReported,
                rank,
                step=line["step"],
                at=_number(line, "at", time.time()),
                loss=_number(line, "loss", None),
                samples=None if samples is None else int(samples),
            )

    def _worth_telling(self, rank: Rank, steps: list[dict[str, Any]], *, last: bool) -> list[dict[str, Any]]:
        """Rank 0's steps, thinned when they come in floods; of other ranks the newest, once a second."""
        if not steps:
            return []
        if rank.rank == 0:
            every = -(-len(steps) // _MOST_AT_ONCE)
            return [*steps[:-1:every], steps[-1]]
        now = time.monotonic()
        if last or now - self._told.get(rank.rank, 0.0) >= _OTHERS_EVERY_S:
            first = [] if rank.rank in self._told else steps[:1]
            self._told[rank.rank] = now
            return first if first == steps[-1:] else [*first, steps[-1]]
        return []

    def _look_for_stalls(self) -> None:
        by_rank = {rank.rank: rank for rank in self.ranks}
        for rank in self.ranks:
            if not rank.exited and rank.stopped_for() >= STOPPED_S and rank.rank not in self._stopped:
                self._stopped.add(rank.rank)
                self._tell(
                    TaskStalled, rank, kind="hang", evidence=(f"process {rank.pid} is stopped (state T)",)
                )
        for finding in self._watch.findings(time.time()):
            rank = by_rank[finding.rank]
            if not rank.exited:
                self._tell(TaskStalled, rank, kind=finding.kind, evidence=(finding.evidence,))

    def end(self, grace_s: float) -> None:
        """Begins to end the ranks: SIGTERM now, SIGKILL after `grace_s`; a stopped one is killed at once."""
        if self._kill_at is not None:
            return
        self._kill_at = time.monotonic() + grace_s
        for rank in self.ranks:
            if not rank.exited:
                row = processes.entry(rank.pid)
                rank.send(signal.SIGKILL if row is not None and row.state == "T" else signal.SIGTERM)

    def _finish(self, keep: Iterable[int]) -> None:
        """Kills what is left below the supervisor; the attempt is over when nothing is."""
        kept = set(keep)
        left = [pid for pid in processes.descendants(os.getpid()) if pid not in kept]
        if left:
            processes.kill_all(left)
            self._kill_at = time.monotonic() + _KILL_AGAIN_S
            return
        if not self.ended_by_itself:
            return  # zombies: the supervisor is about to wait for them
        self.over = True
        if self._copier.is_alive():
            self._copier.finish()
        self._kernel.close()
        self._journal.append(TasksEnded(self._start.job, self.number, self._start.node, time.time()))


def _number(line: dict[str, Any], name: str, otherwise: Any) -> Any:
    with contextlib.suppress(KeyError, TypeError, ValueError):
        return float(line[name])
    return otherwise
