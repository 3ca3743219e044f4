"""Results as they come in, one line each: a killed evaluation goes on where it was."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class ResultLog:
    """An append-only file of results, each with a key; a line cut off by a kill is dropped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.rows: dict[str, dict[str, Any]] = {}
        good = self._read()
        self.stream = open(path, "ab")  # noqa: SIM115 (held until close)
        self.stream.truncate(good)

    def _read(self) -> int:
        """Loads whole lines; returns where the last one ends."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return 0
        good = 0
        for line in data.splitlines(keepends=True):
            try:
                row = json.loads(line)
                self.rows[row["key"]] = row
            except (ValueError, KeyError, TypeError):
                break
            if not line.endswith(b"\n"):
                break
            good += len(line)
        return good

    def get(self, key: str) -> dict[str, Any] | None:
        """The result with a key, if it is there."""
        return self.rows.get(key)

    def put(self, key: str, **values: Any) -> dict[str, Any]:
        """Adds a result; it is on its way to disk when this returns."""
        row = {"key": key, **values}
        self.rows[key] = row
        self.stream.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        self.stream.flush()
        return row

    def sync(self) -> None:
        """Waits until everything is on disk."""
        os.fsync(self.stream.fileno())

    def close(self) -> None:
        """Closes the file."""
        self.sync()
        self.stream.close()

    def clear(self) -> None:
        """Forgets everything: for a run that is wanted anew."""
        self.rows.clear()
        self.stream.truncate(0)
