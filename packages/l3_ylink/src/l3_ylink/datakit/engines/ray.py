"""Ray: each task is a remote call.  Without `RAY_ADDRESS` it runs on this machine only.

A Ray that this engine started ends with it; a cluster that was there is left alone.
"""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from l3_ylink._kit.documents import digest_of_file
from l3_ylink._kit.problems import Failed, Unavailable

from .crash import after_crash
from .slurm import ONE_THREAD
from .spool import Task

if TYPE_CHECKING:
    from l3_ylink.datakit.plan import RunPlan

WAITING_PER_WORKER = 2
START_S = 60
ATTEMPTS = 3
"""On a busy machine Ray's own processes give up on each other; the next attempt finds them in memory."""


class RayEngine:
    """Workers of Ray."""

    def __init__(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_raylet_start_wait_time_s", str(START_S))
        os.environ.setdefault("RAY_agent_register_timeout_ms", str(START_S * 1000))
        try:
            import ray
        except ImportError as error:
            raise Unavailable("Ray is not installed", do="pip install 'l3-ylink[ray]'") from error
        self.ray: Any = ray
        self.mine = False

    def run(self, plan: RunPlan, tasks: Sequence[Task], workers: int) -> Generator[Task]:
        """Does the tasks, a bounded number under way at any time."""
        from l3_ylink.datakit.plan import FILE

        self._connect(workers)
        folder = str(plan.folder.resolve())
        stamp = digest_of_file(plan.folder / FILE)
        remote = self.ray.remote(num_cpus=1, max_retries=0)(_do)
        todo = deque(tasks)
        busy: dict[Any, Task] = {}
        while todo or busy:
            while todo and len(busy) < workers * WAITING_PER_WORKER:
                task = todo.popleft()
                busy[remote.remote(folder, stamp, task)] = task
            done, _ = self.ray.wait(list(busy), num_returns=1)
            task = busy.pop(done[0])
            try:
                yield self.ray.get(done[0])
            except (self.ray.exceptions.WorkerCrashedError, self.ray.exceptions.NodeDiedError):
                todo.append(after_crash(plan.folder, task))
            except self.ray.exceptions.RayError as error:
                raise Failed("Ray lost a task", why=str(error), do="the same command goes on") from error

    def close(self) -> None:
        """Ends the Ray that this engine started."""
        if self.mine:
            self.ray.shutdown()
            self.mine = False

    def _connect(self, workers: int) -> None:
        if self.ray.is_initialized():
            return
        address = os.environ.get("RAY_ADDRESS", "local")
        own = {"num_cpus": workers, "include_dashboard": False} if address == "local" else {}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self.ray.init(address=address, log_to_driver=False, logging_level="error", **own)
            except Exception as error:
                self.ray.shutdown()
                if attempt == ATTEMPTS:
                    raise Unavailable(f"cannot reach Ray at {address}", why=str(error)) from error
            else:
                self.mine = True
                return


def _do(folder: str, stamp: str, task: Task) -> Task:
    """One task in a worker of Ray."""
    os.environ.update(ONE_THREAD)
    from l3_ylink.datakit.worker import answer

    return answer(_plan(folder, stamp), task)


@functools.lru_cache(maxsize=4)
def _plan(folder: str, _stamp: str) -> RunPlan:
    """The plan, read once a worker and again when it changes."""
    from l3_ylink.datakit.plan import RunPlan

    return RunPlan.load(Path(folder))
