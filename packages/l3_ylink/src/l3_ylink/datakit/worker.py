"""A worker process of a data run: `python -m l3_ylink.datakit.worker OUT`.

It reads the run's plan from the folder, then one task a line from its standard input and answers one line
each.  When its input ends, so does it; the local engine also ties it to its own life.  An engine elsewhere
(Slurm, Ray, a job of the scheduler) only has to start this program beside the folder.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO

from l3_ylink._kit.problems import Failed, Problem

from .plan import RunPlan
from .tasks import TASKS


def serve(folder: Path, tasks: TextIO, answers: TextIO) -> None:
    """Answers tasks until there are no more."""
    plan = RunPlan.load(folder)
    for line in tasks:
        task = json.loads(line)
        answers.write(json.dumps(answer(plan, task)) + "\n")
        answers.flush()


def answer(plan: RunPlan, task: dict[str, Any]) -> dict[str, Any]:
    """Does one task; a problem is an answer too."""
    try:
        return {"ok": TASKS[task["task"]](plan, task)}
    except Problem as problem:
        return {"problem": problem.as_json(), "exit_code": problem.exit_code}
    except Exception as error:  # noqa: BLE001 (a fault in one block is told with the block's number)
        what = f"{task['task']} of block {task.get('block')} failed: {type(error).__name__}: {error}"
        return {"problem": Failed(what).as_json(), "exit_code": Failed.exit_code}


def main() -> None:
    """Serves standard input; replies go to the original standard output, prints elsewhere go to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a library that prints must not break the conversation
    serve(Path(sys.argv[1]), sys.stdin, answers)


if __name__ == "__main__":
    main()
