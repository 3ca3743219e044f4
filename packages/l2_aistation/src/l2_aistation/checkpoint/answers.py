"""What the writer answers, read without ever making the trainer wait."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable
from typing import IO, Any

from l2_aistation._kit.problems import Failed

_PATIENCE_S = 60.0


class Answers:
    """The newest durable and replicated step, the last problem, how long writing takes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._rest = b""
        self._values: list[dict[str, Any]] = []
        self.durable: int | None = None
        self.replica: int | None = None
        self.problem: str | None = None
        self.write_s = 0.0
        os.set_blocking(stream.fileno(), False)

    def port(self) -> int:
        """Where the writer listens; waits until it says so."""
        limit = time.monotonic() + _PATIENCE_S
        while time.monotonic() < limit:
            for value in self._read(0.1):
                if "port" in value:
                    return int(value["port"])
        raise Failed("the process that writes checkpoints does not start")

    def listen(self, on_durable: Callable[[int], None] | None = None, wait_s: float = 0.0) -> None:
        """Takes in what has been said."""
        for value in self._read(wait_s):
            if "durable" in value:
                self.durable = int(value["durable"])
                self.write_s = float(value.get("seconds", self.write_s))
                if on_durable is not None:
                    on_durable(self.durable)
            elif "replica" in value:
                self.replica = int(value["replica"])
            elif "problem" in value:
                self.problem = str(value["problem"])

    def close(self) -> None:
        """No more answers."""
        self._stream.close()

    def _read(self, wait_s: float) -> list[dict[str, Any]]:
        ready, _, _ = select.select([self._stream], [], [], wait_s)
        if not ready:
            return []
        raw = self._rest + (os.read(self._stream.fileno(), 65536) or b"")
        *lines, self._rest = raw.split(b"\n")
        return [json.loads(line) for line in lines if line]
