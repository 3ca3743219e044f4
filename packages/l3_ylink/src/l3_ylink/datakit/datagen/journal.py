"""What each job made, a line each, on disk before it counts; a line that was not finished does not exist."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import orjson

from .base import Made


class Journal:
    """The finished jobs of a run by their keys."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.done: dict[str, list[Made]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        for line in whole.splitlines():
            value = orjson.loads(line)
            self.done[value["key"]] = [Made(*made) for made in value["made"]]
        self.stream = open(path, "ab")  # noqa: SIM115 (open as long as the run)
        self.stream.truncate(len(whole))
        self.stream.seek(len(whole))

    def note(self, key: str, made: list[Made]) -> None:
        """Adds a job."""
        with self.lock:
            self.stream.write(orjson.dumps({"key": key, "made": [list(row) for row in made]}) + b"\n")
            self.stream.flush()
            os.fsync(self.stream.fileno())
            self.done[key] = made

    def close(self) -> None:
        """Ends it."""
        self.stream.close()
