"""An append-only file of events: what a supervisor saw, kept until the platform has it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from l2_aistation.core.events import Event, from_wire, to_wire


class Line(NamedTuple):
    """A numbered event of a journal; numbers begin at 1 and have no gaps."""

    number: int
    event: Event


class Journal:
    """The writer's side; one writer at a time.  A line is one `write`, so a kill leaves it whole or cut."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.last = max((line.number for line in Reader(path).new()), default=0)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        written = path.read_bytes()
        os.truncate(path, written.rfind(b"\n") + 1)  # the cut line of a killed writer was never read

    def append(self, event: Event) -> None:
        """Adds an event under the next number."""
        self.last += 1
        os.write(self._file, json.dumps({"n": self.last, **to_wire(event)}).encode() + b"\n")

    def close(self) -> None:
        """Frees the file."""
        os.close(self._file)


class Reader:
    """Reads a journal from another process, each line once; a cut or foreign line is passed over."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0

    def new(self) -> Iterator[Line]:
        """The lines that came since the last call."""
        try:
            if self.path.stat().st_size == self._offset:
                return
            with open(self.path, "rb") as stream:
                stream.seek(self._offset)
                block = stream.read()
        except FileNotFoundError:
            return
        whole = block[: block.rfind(b"\n") + 1]
        self._offset += len(whole)
        for raw in whole.splitlines():
            line = _parsed(raw)
            if line is not None:
                yield line


def _parsed(raw: bytes) -> Line | None:
    try:
        members: dict[str, Any] = json.loads(raw)
        return Line(members.pop("n"), from_wire(members))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
