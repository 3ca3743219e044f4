"""A job's folder on a node: commands as files, events as a journal, one supervisor at a time.

supervised           locked by the supervisor for as long as it lives
wake                 a FIFO; a byte in it makes the supervisor look at its commands
events.jsonl         the journal        acknowledged   the last number that the platform has
release              the job is over up to this attempt: the supervisor may go
<attempt>/start.json, warm.json, end.json     commands, written once
<attempt>/rank-<R>.log, rank-<R>.steps        what the ranks print and report
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from l2_aistation._kit.files import atomic_write
from l2_aistation.core.events import from_wire, to_wire


class JobFolder:
    """Paths and small files of one job on one node."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.wake_path = path / "wake"
        self.journal_path = path / "events.jsonl"
        with contextlib.suppress(FileExistsError):
            os.mkfifo(self.wake_path, 0o600)
        if not (path / "identity").exists():
            atomic_write(path / "identity", secrets.token_hex(4), mode=0o600)
        self.identity = (path / "identity").read_text()

    @property
    def mark(self) -> str:
        """What the job's processes carry in their environment (see `processes.MARK`)."""
        return hashlib.sha256(str(self.path.resolve()).encode()).hexdigest()[:24]

    def attempts(self) -> list[int]:
        """The attempts that this node has heard of, the newest last."""
        return sorted(int(entry.name) for entry in self.path.iterdir() if entry.name.isdigit())

    def attempt(self, number: int) -> Path:
        """The folder of one attempt."""
        return self.path / str(number)

    def put(self, number: int, name: str, command: Any) -> bool:
        """Keeps a command once; False where it was there already."""
        path = self.attempt(number) / f"{name}.json"
        if path.exists():
            return False
        atomic_write(path, json.dumps(to_wire(command)), mode=0o600)
        return True

    def get(self, number: int, name: str) -> Any:
        """A kept command, None where there is none."""
        try:
            return from_wire(json.loads((self.attempt(number) / f"{name}.json").read_bytes()))
        except FileNotFoundError:
            return None

    def set_number(self, name: str, number: int) -> None:
        """Keeps a number that only grows."""
        if number > self.number(name):
            atomic_write(self.path / name, str(number), mode=0o600)

    def number(self, name: str) -> int:
        """The number kept under `name`, 0 at first."""
        try:
            return int((self.path / name).read_text())
        except (FileNotFoundError, ValueError):
            return 0

    @contextlib.contextmanager
    def supervised(self, patience_s: float = 0.0) -> Iterator[bool]:
        """Takes the supervisor's place; yields False where somebody keeps it for `patience_s`."""
        until = time.monotonic() + patience_s
        with open(self.path / "supervised", "a", encoding="utf-8") as stream:
            while True:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= until:
                        yield False
                        return
                    time.sleep(0.05)
            yield True

    def wake(self) -> bool:
        """Makes the supervisor look at its commands; False where none lives."""
        return self._to_supervisor(b"!")

    def is_supervised(self) -> bool:
        """Whether a supervisor lives (it holds the FIFO open)."""
        return self._to_supervisor(b"")

    def _to_supervisor(self, message: bytes) -> bool:
        try:
            pipe = os.open(self.wake_path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.ENOENT):
                return False
            raise
        if message:
            with contextlib.suppress(BlockingIOError):  # a full pipe will wake it as well
                os.write(pipe, message)
        os.close(pipe)
        return True
