"""One rank: its process, what it prints, what it reports."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from l2_aistation.core.events import TaskLaunch

from . import processes
from .warm import ForkServer, forkable, interpreter


class Rank:
    """A started rank.  `pidfd` turns readable when the process ends."""

    def __init__(self, launch: TaskLaunch, folder: Path) -> None:
        self.launch = launch
        self.rank = launch.rank
        self.log = folder / f"rank-{launch.rank}.log"
        self.steps = folder / f"rank-{launch.rank}.steps"
        self.pid = 0
        self.pidfd = -1
        self.exited = False
        self.code: int | None = None
        self.signal: int | None = None
        self.stopped_since: float | None = None
        self._reported = 0

    def start(self, environment: Mapping[str, str], folder: Path, server: ForkServer | None) -> None:
        """Starts the process, from the fork server where that can; `OSError` says why it cannot."""
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self.pid = self._fork(environment, folder, log, server) or self._exec(environment, folder, log)
        finally:
            os.close(log)
        with contextlib.suppress(OSError):  # gone already, or a kernel without: it is waited for anyway
            self.pidfd = os.pidfd_open(self.pid)

    def _fork(self, environment: Mapping[str, str], folder: Path, log: int, server: ForkServer | None) -> int:
        arguments = forkable(self.launch.command, environment)
        if arguments is None or server is None or not server.serves(self.launch.command[0], environment):
            return 0
        return server.fork(arguments, environment, folder, log)

    def _exec(self, environment: Mapping[str, str], folder: Path, log: int) -> int:
        me = os.getpid()
        command = [interpreter(self.launch.command[0]), *self.launch.command[1:]]
        processes.find(command[0], environment, folder)
        child = subprocess.Popen(
            [*processes.DIE_WITH_PARENT, *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
            preexec_fn=None if processes.DIE_WITH_PARENT else lambda: processes.die_with(me),  # noqa: PLW1509
        )
        child.returncode = 0  # the supervisor waits for all of its children itself
        return child.pid

    def ended(self, status: os.waitid_result) -> None:
        """Takes the process's end in, and ends what it left in its process group."""
        self.exited = True
        if status.si_code == os.CLD_EXITED:
            self.code = status.si_status
        else:
            self.signal = status.si_status
        self.send(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """A signal to the rank's process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def stopped_for(self) -> float:
        """For how many seconds the process has been seen stopped (SIGSTOP), 0 where it runs."""
        row = processes.entry(self.pid)
        if row is None or row.state != "T":
            self.stopped_since = None
            return 0.0
        if self.stopped_since is None:
            self.stopped_since = time.monotonic()
        return time.monotonic() - self.stopped_since

    def reports(self) -> list[dict[str, Any]]:
        """What the rank has reported through the SDK since the last call; foreign lines are passed over."""
        try:
            if self.steps.stat().st_size == self._reported:
                return []
            with open(self.steps, "rb") as stream:
                stream.seek(self._reported)
                block = stream.read(1 << 20)
        except OSError:
            return []
        whole = block[: block.rfind(b"\n") + 1]
        self._reported += len(whole)
        lines = []
        for raw in whole.splitlines():
            with contextlib.suppress(ValueError):
                line = json.loads(raw)
                if isinstance(line, dict) and isinstance(line.get("step"), int):
                    lines.append(line)
        return lines
