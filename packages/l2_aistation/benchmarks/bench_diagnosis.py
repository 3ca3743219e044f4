"""How many log lines a second are diagnosed, and with --samples how many labels and actions are right.

`python bench_diagnosis.py [--samples FOLDER]` prints one JSON list of rows.  The log is generated: what a
Megatron run on 512 ranks prints, with NCCL's own lines and one fault at the end.  FOLDER holds log files and
`labels.csv` with the columns file and label, and perhaps action.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from l2_aistation.api import diagnose

LINES = 600_000
FAULT = "[ 9123.500001] NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, GPU has fallen off the bus."
ACTIONS = {
    "replace": ("replace", "exclude", "bisect"),
    "reset": ("reset", "drain"),
    "restart": (
        "restart",
        "requeue",
        "fall_back",
        "other_port",
        "wait",
        "find_missing",
        "dump_stacks",
        "host_memory_then",
    ),
    "fix": ("fix", "lower", "raise", "check_driver", "inspect", "free_space"),
    "rollback": ("rollback",),
    "watch": ("watch", "next_idle", "bisect"),
    "ignore": ("ignore",),
}
"""Which words of a labelled action mean which of ours."""


def write_log(path: Path) -> None:
    """Six iteration lines, two of NCCL and two of ranks in ten."""
    chance = random.Random(1)
    with open(path, "w", encoding="utf-8") as stream:
        for number in range(LINES):
            kind = number % 10
            if kind < 6:
                clock = f"2026-01-05 10:{number // 60 % 60:02d}:{number % 60:02d}"
                took, loss = 5000 + chance.random() * 30, 2.5 + chance.random() * 0.1
                stream.write(f" [{clock}] iteration {number:8d}/  500000")
                stream.write(f" | elapsed time per iteration (ms): {took:.1f} | lm loss: {loss:.6E}")
                stream.write(" | grad norm: 0.311 | number of nan iterations: 0 |\n")
            elif kind < 8:
                place = f"node{number % 64:03d}:{number}:{number + 9} [{number % 8}]"
                stream.write(f"{place} NCCL INFO Channel {number % 16:02d}/0\n")
            else:
                stream.write(f"[rank{number % 512}]: INFO step {number} loading took 0.0{number % 9}s\n")
        stream.write(FAULT + "\n")


def speed() -> dict[str, Any]:
    """Lines a CPU-second, reading included."""
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "rank0.log"
        write_log(log)
        begun = time.process_time()
        found = diagnose([log])
        rate = found.lines / (time.process_time() - begun)
    if found.cause.label != "gpu_off_bus":
        raise SystemExit(f"the fault at the end was called {found.cause.label}")
    return row(
        "log lines diagnosed",
        round(rate),
        "lines/CPU-s",
        f"{LINES} lines of 512 ranks",
        ">= 100,000",
        rate >= 100_000,
    )


def right(folder: Path) -> list[dict[str, Any]]:
    """Labels and actions against those of a folder."""
    labels = actions = count = 0
    with open(folder / "labels.csv", encoding="utf-8") as stream:
        for wanted in csv.DictReader(stream):
            cause = diagnose([folder / wanted["file"]]).cause
            labels += cause.label == wanted["label"]
            words = wanted.get("action") or ""
            actions += not words or any(word in words for word in ACTIONS.get(cause.action, ()))
            count += 1
            if cause.label != wanted["label"]:
                print(f"{wanted['file']}: {cause.label} for {wanted['label']}", file=sys.stderr)
    share, acted = 100 * labels / count, 100 * actions / count
    how = f"{count} labelled logs in {folder.name}"
    return [
        row("labels right", round(share, 1), "%", how, ">= 95", share >= 95),
        row("actions right", round(acted, 1), "%", how, ">= 99", acted >= 99),
    ]


def row(name: str, ours: float, unit: str, how: str, bar: str, ok: bool) -> dict[str, Any]:
    """One row of the table."""
    nobody = {"peer": None, "peer_version": None, "ratio": None}
    return {
        "layer": "l2",
        "name": name,
        "ours": ours,
        **nobody,
        "unit": unit,
        "how": how,
        "bar": bar,
        "ok": ok,
    }


def main() -> None:
    """Prints the rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=Path)
    samples = parser.parse_args().samples
    json.dump([speed(), *(right(samples) if samples else [])], sys.stdout, indent=1)


if __name__ == "__main__":
    main()
