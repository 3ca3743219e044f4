"""The supervisor's loop: obey commands, wait for children, look after the attempt."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import time
from pathlib import Path

from l2_aistation.core.events import StartTasks, TasksEnded

from . import environment, processes
from .attempt import Attempt
from .folder import JobFolder
from .journal import Journal
from .warm import ForkServer, forkable

_BUSY_S = 0.1
_IDLE_S = 2.0
_LOOK_AGAIN_S = 1.0
IDLE_LIMIT_S = 900.0
"""A supervisor without ranks that hears nothing for so long goes."""


class Supervisor:
    """Runs a job's attempts on this node, one after the other, and keeps a fork server between them."""

    def __init__(self, folder: JobFolder, *, shared: Path, node: str) -> None:
        self._folder, self._shared, self._node = folder, shared, node
        self._journal = Journal(folder.journal_path)
        self._attempt: Attempt | None = None
        self._waiting = False  # for the fork server, before the attempt's ranks start
        self._server: ForkServer | None = None
        self._selector = selectors.DefaultSelector()
        self._used = time.monotonic()
        self._obeyed = 0.0

    def run(self) -> None:
        """Works until the job is released or nobody needs it any more."""
        processes.become_subreaper()
        pipe = os.open(self._folder.wake_path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(pipe, selectors.EVENT_READ)
        try:
            self._obey()
            while not self._finished():
                ready = self._selector.select(_BUSY_S if self._busy() else _IDLE_S)
                if any(key.fd == pipe for key, _mask in ready):
                    os.read(pipe, 4096)
                    self._obeyed = 0.0
                self._wait_for_children()
                self._obey()
                self._go_on()
                self._wait_for_children()
        finally:
            self._drop_server()
        if self._released():
            shutil.rmtree(environment.memory_of(self._folder.mark), ignore_errors=True)

    def _released(self) -> bool:
        newest = max(self._folder.attempts(), default=0)
        return bool(newest) and self._folder.number("release") >= newest

    def _busy(self) -> bool:
        return self._attempt is not None and not self._attempt.over

    def _finished(self) -> bool:
        if self._busy():
            self._used = time.monotonic()
            return False
        return self._released() or time.monotonic() - self._used > IDLE_LIMIT_S

    def _wait_for_children(self) -> None:
        """Collects every child that ended; orphans that were adopted are simply buried."""
        while True:
            try:
                status = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)
            except ChildProcessError:
                return
            if status is None:
                return
            if self._attempt is not None:
                self._attempt.reaped(status.si_pid, status)
                self._forget_ended(self._attempt)
            if self._server is not None and status.si_pid == self._server.pid:
                self._server.died()

    def _forget_ended(self, attempt: Attempt) -> None:
        for rank in attempt.ranks:
            if rank.exited and rank.pidfd >= 0:
                with contextlib.suppress(KeyError):
                    self._selector.unregister(rank.pidfd)
                os.close(rank.pidfd)
                rank.pidfd = -1

    def _obey(self) -> None:
        """Follows the commands on disk: after a wake-up, and now and then in case one was lost."""
        if time.monotonic() - self._obeyed < _LOOK_AGAIN_S:
            return
        self._obeyed = time.monotonic()
        current = self._attempt
        if current is not None and (end := self._folder.get(current.number, "end")) is not None:
            self._end(end.grace_s)
        newest = max(self._folder.attempts(), default=0)
        if newest == 0 or self._folder.get(newest, "end") is not None:
            return
        start = self._folder.get(newest, "start")
        if start is not None and (current is None or newest > current.number):
            self._begin(start)
        elif start is None and (warm := self._folder.get(newest, "warm")) is not None:
            self._warm_up(warm)

    def _begin(self, start: StartTasks) -> None:
        """Makes `start` the attempt; leftovers of an earlier one are ended first."""
        if self._attempt is not None and not self._attempt.over:
            self._end(0.0)
            self._obeyed = 0.0  # come back here when it is over
            return
        if (self._folder.attempt(start.attempt) / "begun").exists():
            return  # an earlier supervisor began it and was killed: never start a rank twice
        (self._folder.attempt(start.attempt) / "begun").touch()
        self._attempt = Attempt(
            start, self._folder.attempt(start.attempt), self._shared, self._journal, self._folder.mark
        )
        self._waiting = True
        self._warm_up(start)

    def _warm_up(self, start: StartTasks) -> None:
        """Has a fork server for the first task that one can start."""
        for task in start.tasks:
            variables = environment.of_rank(
                start, task, shared=self._shared, steps=Path(os.devnull), mark=self._folder.mark
            )
            if forkable(task.command, variables) is None:
                continue
            key = ForkServer.key_of(task.command[0], variables)
            if self._server is not None and (self._server.key != key or not self._server.alive):
                self._drop_server()
            if self._server is None and self._shared.is_dir():
                log = self._folder.path / "forkserver.log"
                self._server = ForkServer(task.command[0], variables, self._shared, log)
                self._selector.register(self._server, selectors.EVENT_READ)
            return

    def _drop_server(self) -> None:
        if self._server is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(self._server)
            self._server.close()
            self._server = None

    def _go_on(self) -> None:
        server = self._server
        if server is not None and server.importing:
            server.take_ready()
            if not server.importing:
                self._selector.unregister(server)  # later answers are read where they are asked for
                print(
                    "fork server:", server.ready, flush=True
                )  # more than one thread is a risk: keep the trace
        attempt = self._attempt
        if attempt is None:
            return
        if self._waiting and (self._server is None or not self._server.importing):
            self._waiting = False
            attempt.start(self._server)
            for rank in attempt.ranks:
                if rank.pidfd >= 0:
                    self._selector.register(rank.pidfd, selectors.EVENT_READ)
        if not self._waiting:
            attempt.tick(() if self._server is None else (self._server.pid,))

    def _end(self, grace_s: float) -> None:
        attempt = self._attempt
        if attempt is None or attempt.over:
            return
        if self._waiting:  # no rank has started yet
            self._waiting = False
            attempt.over = True
            start = self._folder.get(attempt.number, "start")
            self._journal.append(TasksEnded(start.job, attempt.number, self._node, time.time()))
            return
        attempt.end(grace_s)
