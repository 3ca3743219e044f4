"""What a run cost in CPU seconds: noted by whoever does the work, one line each, in `OUT/.costs.jsonl`.

The only file of a run that differs from one run to the next; nothing that the run makes depends on it.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

FILE = ".costs.jsonl"
Value = TypeVar("Value")


class StepClock:
    """CPU seconds of this process by name: `with clock("language"): …`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.process_time()
        try:
            yield
        finally:
            self.seconds[name] += time.process_time() - start

    def each(self, name: str, values: Iterable[Value]) -> Iterator[Value]:
        """The same values; the time that it takes to get each is counted."""
        iterator = iter(values)
        while True:
            with self(name):
                try:
                    value = next(iterator)
                except StopIteration:
                    return
            yield value


class TaskCost(NamedTuple):
    """What one task took: CPU seconds by step, for a block or a shard of so many bytes.

    `warm`: the process had done such a task before, so that nothing was loaded or compiled in it.
    """

    stage: str
    block: int
    bytes: int
    seconds: dict[str, float]
    warm: bool = False


_DONE_HERE: set[str] = set()


class Ledger:
    """The costs of the run in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def task(self, stage: str, block: int, size: int, clock: StepClock) -> None:
        """Notes a task that was done from its beginning."""
        seconds = {name: round(value, 6) for name, value in clock.seconds.items()}
        cost = TaskCost(stage, block, size, seconds, stage in _DONE_HERE)
        _DONE_HERE.add(stage)
        self._append(cost._asdict())

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Notes the CPU seconds that this process spends on a stage over all documents at once."""
        start = time.process_time()
        yield
        self._append({"stage": name, "cpu_s": round(time.process_time() - start, 6)})

    def _append(self, entry: dict[str, Any]) -> None:
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"
        with suppress(OSError), open(self.path, "a", encoding="utf-8") as stream:
            stream.write(line)  # a full disk is told by those who have something to keep

    def read(self) -> tuple[dict[tuple[str, int], TaskCost], dict[str, float]]:
        """Tasks by stage and block, and CPU seconds of whole stages; of several notes the last counts.

        A line that a kill or another writer cut short is left out.
        """
        tasks: dict[tuple[str, int], TaskCost] = {}
        stages: dict[str, float] = {}
        for line in self.path.read_text("utf-8").splitlines() if self.path.exists() else ():
            try:
                entry = json.loads(line)
                if "cpu_s" in entry:
                    stages[str(entry["stage"])] = float(entry["cpu_s"])
                else:
                    cost = TaskCost(**entry)
                    tasks[cost.stage, cost.block] = cost
            except (ValueError, TypeError, KeyError):
                continue
        return tasks, stages
