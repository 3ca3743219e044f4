"""What a checkpoint of 1 GB costs the training: the stall, the steps while it is written, the memory.

`python bench_checkpoint.py [--gigabytes 1]` prints one JSON list of rows.  One rank on CPU; the peer is
`torch.distributed.checkpoint.save` of the same state to the same folder in the same run.  A stall is wall
time, so both sides are measured in turns and the median of five is taken.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from l2_aistation.checkpoint import Checkpointer

TURNS = 5
SAVES = 200


def state_of(gigabytes: float) -> dict[str, Any]:
    """Weights and two moments, in tensors of 16 MB."""
    count = max(1, round(gigabytes * 1e9 / 3 / 16e6))
    return {
        name: {f"layer{number}": torch.full((4_000_000,), float(number)) for number in range(count)}
        for name in ("model", "first", "second")
    }


def seconds(work: Callable[[], object]) -> float:
    """Wall time."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def step_times(count: int, until: Callable[[], bool] = lambda: False) -> list[float]:
    """Steps of some ten milliseconds on one thread, at most `count`."""
    weight = torch.randn(700, 700)
    times = []
    for _ in range(count):
        times.append(seconds(lambda: weight @ weight @ weight))
        if until():
            break
    return times


def row(
    name: str, ours: float, peer: float | None, unit: str, how: str, bar: str, *, ok: bool
) -> dict[str, Any]:
    """One row of the table."""
    return {
        "layer": "l2",
        "name": name,
        "ours": round(ours, 4),
        "peer": None if peer is None else round(peer, 4),
        "peer_version": None if peer is None else f"torch.distributed.checkpoint {torch.__version__}",
        "ratio": None if not peer else round(ours / peer, 4),
        "unit": unit,
        "how": how,
        "bar": bar,
        "ok": ok,
    }


def stalls(folder: Path, state: dict[str, Any], size: float) -> list[dict[str, Any]]:
    """Our save beside DCP's, in turns, and steps while ours is being written."""
    ours, theirs, busy = [], [], []
    calm = median(step_times(100))
    with Checkpointer(folder / "ours", rank=0, world_size=1, every=1, memory=folder / "memory") as keeper:
        for turn in range(-2, 2 * TURNS, 2):  # the first fills the buffers of both slots
            for step in (turn, turn + 1):
                stall = keeper.save(step + 2, state)
                if turn >= 0:
                    ours.append(stall)
                    busy += step_times(400, until=lambda step=step: (keeper.durable or 0) >= step + 2)
                keeper.wait(step + 2)
            shutil.rmtree(folder / "theirs", ignore_errors=True)
            taken = seconds(lambda: dcp.save(state, checkpoint_id=str(folder / "theirs"), no_dist=True))
            theirs.append(taken)
    mine, peer = median(ours) / size, median(theirs[1:]) / size
    slower = median(busy) / calm
    return [
        row(
            "stall of a save for 1 GB of state",
            mine,
            peer,
            "s/GB",
            "median wall, in turns",
            "<= 0.5 s",
            ok=mine <= 0.5,
        ),
        row(
            "step time while a checkpoint is written in the background",
            slower,
            None,
            "x of calm steps",
            f"median of {len(busy)} steps of {1000 * calm:.0f} ms",
            "<= 1.3",
            ok=slower <= 1.3,
        ),
    ]


def growth(folder: Path) -> dict[str, Any]:
    """Resident memory after 200 saves of 30 MB against after 20."""
    state = state_of(0.03)
    with Checkpointer(folder / "many", rank=0, world_size=1, every=1, memory=folder / "memory") as keeper:
        for step in range(20):
            keeper.save(step, state)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for step in range(20, SAVES):
            keeper.save(step, state)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return row(
        f"memory growth over {SAVES} saves",
        grown,
        None,
        "MB",
        "peak resident size of the trainer",
        "none",
        ok=grown < 1,
    )


def main() -> None:
    """Prints the rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gigabytes", type=float, default=1.0)
    size = parser.parse_args().gigabytes
    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp(prefix="bench-checkpoint-"))
    memory = Path(tempfile.mkdtemp(prefix="ogai-bench-", dir="/dev/shm"))
    (folder / "memory").symlink_to(memory)
    try:
        rows = [*stalls(folder, state_of(size), size), growth(folder)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(memory, ignore_errors=True)
    json.dump(rows, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
