"""The local engine: maps tasks to worker processes.  An engine only decides where a task runs.

A worker that dies takes one task with it.  The task is tried again, carefully (noting each file before it
is opened); a file on which the worker dies once more is skipped and reported, the rest is done.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from l3_ylink._kit.problems import Failed, Problem
from l3_ylink.backends.local import TIED

from .engines.crash import after_crash
from .plan import RunPlan
from .worker import answer

Task = dict[str, Any]


def run_tasks(plan: RunPlan, tasks: Sequence[Task], workers: int) -> Iterator[Task]:
    """Does tasks, yielding each answer as it comes; the first problem ends the run."""
    if plan.engine is not None:
        with contextlib.closing(plan.engine.run(plan, tasks, workers)) as replies:
            for reply in replies if tasks else ():
                yield _checked(reply)
        return
    if workers == 1 or len(tasks) <= 1:
        for task in tasks:
            yield _checked(answer(plan, task))
        return
    yield from _Pool(plan.folder, tasks, min(workers, len(tasks))).answers()


def _checked(reply: Task) -> Task:
    if "problem" in reply:
        about = reply["problem"]
        problem = Failed(
            about["title"], why=about.get("detail", ""), do=about.get("try", ""), field=about.get("field")
        )
        problem.exit_code = reply["exit_code"]
        raise problem
    return dict(reply["ok"])


class _Pool:
    """Some worker processes, each with a thread that hands it tasks."""

    def __init__(self, folder: Path, tasks: Sequence[Task], workers: int) -> None:
        self.folder = folder
        self.todo: queue.SimpleQueue[Task] = queue.SimpleQueue()
        for task in tasks:
            self.todo.put(task)
        self.done: queue.SimpleQueue[Task | Problem] = queue.SimpleQueue()
        self.count = len(tasks)
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(workers)]

    def answers(self) -> Iterator[Task]:
        for thread in self.threads:
            thread.start()
        try:
            for _ in range(self.count):
                reply = self.done.get()
                if isinstance(reply, Problem):
                    raise reply
                yield _checked(reply)
        finally:
            self.stop.set()
            for thread in self.threads:
                thread.join()

    def _serve(self) -> None:
        process = None
        try:
            while not self.stop.is_set():
                try:
                    task = self.todo.get_nowait()
                except queue.Empty:
                    return
                process, reply = self._do(process, task)
                self.done.put(reply)
        except (Problem, OSError) as error:
            self.done.put(
                error if isinstance(error, Problem) else Failed("cannot start a worker", why=str(error))
            )
        finally:
            if process is not None:
                _end(process)

    def _do(self, process: subprocess.Popen[str] | None, task: Task) -> tuple[subprocess.Popen[str], Task]:
        while True:
            process = process or self._start()
            reply = _ask(process, task)
            if reply is not None:
                return process, reply
            _end(process)
            process = None
            task = after_crash(self.folder, task)

    def _start(self) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "RAYON_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        tied = [sys.executable, "-I", "-S", str(TIED), str(os.getpid())]
        return subprocess.Popen(
            [*tied, sys.executable, "-m", "l3_ylink.datakit.worker", str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=environment,
        )


def _ask(process: subprocess.Popen[str], task: Task) -> Task | None:
    """The worker's answer, or None if it died."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(task) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
    except BrokenPipeError:
        return None
    return json.loads(line) if line.endswith("\n") else None


def _end(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()
