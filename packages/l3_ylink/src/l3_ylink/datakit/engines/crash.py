"""What is done after a worker died: the task again, carefully; then without the file that was being read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from l3_ylink._kit.problems import Failed

MOST_CRASHES = 20

Task = dict[str, Any]


def after_crash(folder: Path, task: Task) -> Task:
    """The task again: now noting each file; with the note of a crash, without that file."""
    crashes = task.get("crashes", 0) + 1
    if crashes >= MOST_CRASHES:
        raise Failed(
            f"{task['task']} of block {task['block']} brought its worker down {crashes} times",
            do="look at the worker's messages",
        )
    mark = folder / f".reading-{task['block']}"
    if task.get("careful") and mark.exists():
        task = {**task, "skip": [*task.get("skip", ()), mark.read_text("utf-8")]}
        mark.unlink()
    return {**task, "careful": True, "crashes": crashes}
