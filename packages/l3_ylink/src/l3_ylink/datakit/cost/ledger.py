"""What a run cost in CPU seconds: noted as its tasks are done, one line each, in `OUT/.costs.jsonl`.

The only file of a run that differs from one run to the next; nothing that the run makes depends on it.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

FILE = ".costs.jsonl"


class StepClock:
    """CPU seconds by name: `with clock("language"): …`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.process_time()
        try:
            yield
        finally:
            self.seconds[name] += time.process_time() - start

    def rounded(self) -> dict[str, float]:
        """Seconds by name, to the microsecond."""
        return {name: round(value, 6) for name, value in self.seconds.items()}


class BlockCost(NamedTuple):
    """What measuring one block took: CPU seconds by step, and how much was read."""

    block: int
    key: str
    rows: int
    input_bytes: int
    text_bytes: int
    seconds: dict[str, float]


class Ledger:
    """The costs of the run in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def block(self, cost: BlockCost) -> None:
        """Notes a measured block."""
        self._append({"stage": "measure", **cost._asdict()})

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Notes the CPU seconds that this process spends on a stage, its ended children's with them."""
        before = time.process_time(), time.monotonic()
        yield
        cpu, wall = time.process_time() - before[0], time.monotonic() - before[1]
        self._append({"stage": name, "cpu_s": round(cpu, 6), "wall_s": round(wall, 6)})

    def tasks(self, name: str, cpu_s: float) -> None:
        """Notes the CPU seconds that the workers spent on a stage other than measuring."""
        self._append({"stage": name, "cpu_s": round(cpu_s, 6), "wall_s": 0.0})

    def _append(self, entry: dict[str, Any]) -> None:
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"
        with open(self.path, "a", encoding="utf-8") as stream:
            stream.write(line)

    def read(self) -> tuple[dict[str, BlockCost], dict[str, float]]:
        """Blocks by key (of several the last), and CPU seconds of the stages of the last run.

        A line that a kill cut short is left out.  A stage that begins again counts anew.
        """
        blocks: dict[str, BlockCost] = {}
        stages: dict[str, float] = {}
        for line in self.path.read_text("utf-8").splitlines() if self.path.exists() else ():
            try:
                entry = json.loads(line)
                stage = entry.pop("stage")
                if stage == "measure":
                    cost = BlockCost(**entry)
                    blocks[cost.key] = cost
                elif stage == "start":
                    stages = {}
                else:
                    stages[stage] = stages.get(stage, 0.0) + float(entry["cpu_s"])
            except (ValueError, TypeError, KeyError):
                continue
        return blocks, stages

    def start(self) -> None:
        """Notes that a run begins: earlier figures of its stages do not count any more."""
        self._append({"stage": "start"})
