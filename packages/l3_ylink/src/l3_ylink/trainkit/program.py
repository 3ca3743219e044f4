"""What the training programs share: errors in words, steps to a file and to whoever listens."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from l3_ylink._kit.problems import Problem
from l3_ylink.ports import ProgressReporter

STEPS = "steps.jsonl"
RESULT = "result.json"


def run_program(main: Callable[[], None]) -> None:
    """Runs a rank's `main` and ends the process; a `Problem` becomes a message and its exit code."""
    # Threads that spin while they wait take five times the time where other processes need the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        main()
    except Problem as problem:
        sys.stdout.flush()  # the error is the last word in a log that both share
        for number, line in enumerate(str(problem).splitlines()):
            print(("error: " if number == 0 else "  ") + line, file=sys.stderr, flush=True)
        os._exit(problem.exit_code)  # threads of a half-made process group must not hold the exit up
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # all is written; threads that libraries leave behind abort a process that ends slowly


class StepLog:
    """`steps.jsonl`, one row a step, appended across attempts; also tells the reporter and stdout."""

    def __init__(self, out: Path, attempt: int, reporter: ProgressReporter | None) -> None:
        self.path, self.attempt, self.reporter = out / STEPS, attempt, reporter
        out.mkdir(parents=True, exist_ok=True)
        torn = self.path.exists() and self.path.stat().st_size and self.path.read_bytes()[-1:] != b"\n"
        self.stream = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 (as long as the process)
        if torn:  # a killed attempt left half a line
            self.stream.write("\n")

    def step(self, number: int, *, loss: float, seconds: float, samples: int) -> None:
        """Notes a step (counted from 1): mean loss, duration, samples that it took."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        row = {"step": number, "attempt": self.attempt, "at": at, "loss": loss, "seconds": seconds}
        self.stream.write(json.dumps(row) + "\n")
        self.stream.flush()
        print(f"step {number} loss {loss:.4f} seconds {seconds:.3f}", flush=True)
        if self.reporter is not None:
            self.reporter.step(number, loss=loss, samples=samples)

    def close(self) -> None:
        """Closes the file."""
        self.stream.close()

    def checkpoint(self, number: int) -> None:
        """Tells that the checkpoint after step `number` is durable."""
        if self.reporter is not None:
            self.reporter.checkpoint(number)

    def resumed(self, number: int) -> None:
        """Tells that training goes on after step `number`."""
        print(f"resumed after step {number}", flush=True)
        if self.reporter is not None:
            self.reporter.resumed(number)


class StepReader:
    """Reads a step log as it grows; a torn line is passed over."""

    def __init__(self, out: Path, *, only_new: bool = False) -> None:
        self.path = out / STEPS
        self.offset = self.path.stat().st_size if only_new and self.path.exists() else 0

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows written since the last call."""
        try:
            with open(self.path, "rb") as stream:
                stream.seek(self.offset)
                whole, newline, _torn = stream.read().rpartition(b"\n")
        except FileNotFoundError:
            return
        self.offset += len(whole) + len(newline)
        for line in whole.splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue


def read_steps(out: Path) -> Iterator[dict[str, Any]]:
    """All rows of `steps.jsonl`."""
    return StepReader(out).rows()


def loss_curve(out: Path) -> dict[int, float]:
    """Step -> loss; where attempts overlap, the last one's."""
    return {row["step"]: row["loss"] for row in read_steps(out) if "loss" in row}


def reporter_of_platform() -> ProgressReporter | None:
    """The platform's progress SDK inside a job that has one, else nothing."""
    if "OGAI_PROGRESS" not in os.environ:
        return None
    try:
        from l3_ylink.adapters.l2_aistation import progress_reporter
    except ImportError:
        return None
    return progress_reporter()
