"""A worker of a batch scheduler: `python -m l3_ylink.datakit.engines.shard OUT ROUND [NUMBER COUNT]`.

Does every COUNT-th task of the round from NUMBER on (by default the environment's RANK and WORLD_SIZE),
leaving out those with a reply.  `--input IN` says where the input lies on this node.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from pathlib import Path

from l3_ylink.datakit.plan import RunPlan
from l3_ylink.datakit.worker import answer

from .spool import FOLDER, Spool


def work(folder: Path, mark: str, number: int, count: int, input_folder: Path | None = None) -> None:
    """Does this worker's share of a round."""
    spool = Spool(folder / FOLDER / mark)
    tasks = spool.tasks()
    if not tasks:
        return
    spool.start(number)
    plan = RunPlan.load(folder)
    if input_folder is not None:
        plan = dataclasses.replace(plan, input=input_folder)
    done = spool.answered()
    for task in range(number, len(tasks), count):
        if not spool.open:
            return
        if task not in done:
            spool.answer(task, answer(plan, tasks[task]))


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("round")
    parser.add_argument("number", type=int, nargs="?", default=int(os.environ.get("RANK", "0")))
    parser.add_argument("count", type=int, nargs="?", default=int(os.environ.get("WORLD_SIZE", "1")))
    parser.add_argument("--input", type=Path)
    given = parser.parse_args()
    root = Path(os.environ.get("OGAI_SHARED_DIR", ""))
    place = None if given.input is None else root / given.input
    work(root / given.out, given.round, given.number, given.count, place)


if __name__ == "__main__":
    main()
