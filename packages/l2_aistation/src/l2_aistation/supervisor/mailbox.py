"""A box in the shared folder: how the platform reaches a node that has no agent.

Where another workload manager owns the nodes (Slurm, Kubernetes) nothing of ours waits there for
commands.  The manager starts a warden for an attempt's part on a node; the two sides then talk over
one folder each for job and node:

<attempt>.start.json, <attempt>.end.json    commands, written once by the platform
<attempt>.beat                              a number that the warden changes while it lives
events.jsonl                                what happened, one event a line; kept until the job is forgotten
delivered                                   how many bytes of it the platform has made durable

Only whole lines count.  Nothing needs a lock: each file has one writer at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from l2_aistation._kit.files import atomic_write
from l2_aistation.core.events import Event, from_wire, to_wire

_MODE = 0o600


class Box:
    """One job's box on one node."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.job, self.node = path.name, path.parent.name
        self._events = path / "events.jsonl"

    def make(self) -> None:
        """Makes the folder, for this user alone: commands hold the job's environment."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def put(self, attempt: int, kind: str, command: Any) -> bool:
        """Keeps a command once; False where it was there already."""
        path = self.path / f"{attempt}.{kind}.json"
        if path.exists():
            return False
        self.make()
        atomic_write(path, json.dumps(to_wire(command)), mode=_MODE)
        return True

    def get(self, attempt: int, kind: str) -> Any:
        """A kept command, None where there is none."""
        try:
            return from_wire(json.loads((self.path / f"{attempt}.{kind}.json").read_bytes()))
        except FileNotFoundError:
            return None

    def attempts(self, kind: str) -> list[int]:
        """The attempts that have a command of this kind, in order."""
        with contextlib.suppress(FileNotFoundError):
            names = (entry.name.split(".") for entry in self.path.iterdir())
            return sorted(int(name[0]) for name in names if name[1:] == [kind, "json"] and name[0].isdigit())
        return []

    def beat(self, attempt: int, count: int) -> None:
        """The warden says that it lives."""
        path = self.path / f"{attempt}.beat"
        neighbour = path.with_suffix(".tmp")
        neighbour.write_text(str(count), encoding="ascii")
        neighbour.replace(path)

    def last_beat(self, attempt: int) -> str:
        """What the warden wrote last, "" where it has not yet."""
        try:
            return (self.path / f"{attempt}.beat").read_text(encoding="ascii")
        except FileNotFoundError:
            return ""

    def append(self, events: list[Event]) -> None:
        """Adds events, durably; a line that a killed writer left cut is closed first."""
        if not events:
            return
        lines = "".join(json.dumps(to_wire(event)) + "\n" for event in events).encode()
        self.make()
        descriptor = os.open(self._events, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _MODE)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                lines = b"\n" + lines
            os.write(descriptor, lines)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def events(self, offset: int = 0) -> tuple[list[Event], int]:
        """The events from byte `offset` on, and where the next ones will begin."""
        try:
            with open(self._events, "rb") as stream:  # opened each time: a network folder looks anew then
                stream.seek(offset)
                block = stream.read()
        except FileNotFoundError:
            return [], offset
        whole = block[: block.rfind(b"\n") + 1]
        return [event for raw in whole.splitlines() if (event := _parsed(raw))], offset + len(whole)

    def delivered(self) -> int:
        """How many bytes of the events are durable with the platform."""
        try:
            return int((self.path / "delivered").read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return 0

    def set_delivered(self, offset: int) -> None:
        """The platform has everything up to `offset`."""
        atomic_write(self.path / "delivered", str(offset), mode=_MODE)


def _parsed(raw: bytes) -> Any:
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        return from_wire(json.loads(raw))
    return None
