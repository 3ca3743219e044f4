"""Rank logs: written to the node's disk, copied to the shared folder behind the supervisor's back.

A shared file system may stall; the copying thread waits for it, the supervisor does not.  The same
thread looks whether a later attempt of the job has begun elsewhere (this node was cut off and is
late): then the ranks here must not touch the checkpoints any more.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

from l2_aistation._kit.files import atomic_write

_EVERY_S = 0.5
_BLOCK_BYTES = 1 << 20
_TAIL_BYTES = 1 << 16


def tail(path: Path, lines: int) -> tuple[str, ...]:
    """The last lines of a log of any size and encoding."""
    try:
        with open(path, "rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - _TAIL_BYTES))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return ()
    return tuple(text.splitlines()[-lines:])


class SharedFolder:
    """A job's place in the shared folder: logs by attempt, and the newest attempt's number."""

    def __init__(self, shared: Path, job: str) -> None:
        self._shared = shared
        self.path = shared / ".aistation" / job

    def log(self, attempt: int, rank: int) -> Path:
        """Where people find a rank's output."""
        return self.path / str(attempt) / f"rank-{rank}.log"

    def newest_attempt(self) -> int:
        """The newest attempt that any node has begun; 0 where none is known."""
        try:
            return int((self.path / "attempt").read_text())
        except (OSError, ValueError):
            return 0

    def is_there(self) -> bool:
        """False where the shared storage is not mounted: nothing may be written in its place."""
        return self._shared.is_dir()

    def begin(self, attempt: int) -> None:
        """Says that `attempt` has begun, so that nodes with an older one stop."""
        if self.is_there() and attempt > self.newest_attempt():
            atomic_write(self.path / "attempt", str(attempt))


class LogCopier(threading.Thread):
    """Copies what ranks print, and watches for a later attempt (`superseded`)."""

    def __init__(self, shared: SharedFolder, attempt: int, logs: dict[int, Path]) -> None:
        super().__init__(daemon=True, name=f"logs-{attempt}")
        self._shared, self._attempt = shared, attempt
        self._sources = {path: shared.log(attempt, rank) for rank, path in logs.items()}
        self._offsets = dict.fromkeys(self._sources, 0)
        self._stopping = threading.Event()
        self._done = threading.Event()
        self.superseded = threading.Event()

    def run(self) -> None:
        """Copies until told to stop, then once more."""
        with contextlib.suppress(OSError):
            self._shared.begin(self._attempt)
        while not self._stopping.wait(_EVERY_S):
            self._pass()
        self._pass()
        self._done.set()

    def _pass(self) -> None:
        if not self._shared.is_there():
            return
        if self._shared.newest_attempt() > self._attempt:
            self.superseded.set()
        for source, target in self._sources.items():
            with contextlib.suppress(OSError):  # the next pass tries again from the same place
                self._offsets[source] += _copy(source, target, self._offsets[source])

    def finish(self, within_s: float = 2.0) -> None:
        """Copies the rest; gives up waiting for a shared folder that stalls."""
        self._stopping.set()
        self._done.wait(within_s)


def _copy(source: Path, target: Path, offset: int) -> int:
    copied = 0
    with open(source, "rb") as stream:
        stream.seek(offset)
        while block := stream.read(_BLOCK_BYTES):
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "r+b" if target.exists() else "w+b") as output:
                output.seek(offset + copied)  # the same bytes land in the same place when repeated
                output.write(block)
            copied += len(block)
    return copied
