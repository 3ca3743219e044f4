"""Slurm: the workers of a round are one job array.

Partition, account, time and memory come from Slurm's own variables (`SBATCH_PARTITION`, `SBATCH_ACCOUNT`,
`SBATCH_TIMELIMIT`, `SBATCH_MEM_PER_CPU` …), as for any `sbatch`.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from l3_ylink._kit.problems import Failed, Unavailable

from .spool import Spool, Task, run_rounds

if TYPE_CHECKING:
    from l3_ylink.datakit.plan import RunPlan

PROGRAMS = ("sbatch", "squeue", "scancel")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
COMMAND_S = 60
PATIENCE = 30
"""Times in a row that Slurm may fail to answer before the run gives up (its controller restarts)."""


class SlurmEngine:
    """Workers as the tasks of a job array."""

    def __init__(self) -> None:
        missing = [name for name in PROGRAMS if shutil.which(name) is None]
        if missing:
            raise Unavailable(f"there is no {', '.join(missing)} here", do="run where jobs can be submitted")
        self.silent = 0

    def run(self, plan: RunPlan, tasks: Sequence[Task], workers: int) -> Generator[Task]:
        """Submits an array and yields the replies of its tasks."""
        yield from run_rounds(self, plan, tasks, workers)

    def close(self) -> None:
        """Nothing is held between rounds."""

    def submit(self, plan: RunPlan, spool: Spool, count: int) -> str:
        """Submits `count` workers of one core each."""
        folder = plan.folder.resolve()
        words = [sys.executable, "-m", "l3_ylink.datakit.engines.shard", str(folder), spool.round]
        settings = "\n".join(f"export {name}={value}" for name, value in ONE_THREAD.items())
        script = f'#!/bin/sh\n{settings}\nexec {shlex.join(words)} "$SLURM_ARRAY_TASK_ID" {count}\n'
        options = [
            "--parsable",
            f"--job-name=ylink-{spool.round}",
            f"--array=0-{count - 1}",
            "--ntasks=1",
            "--cpus-per-task=1",
            "--requeue",
            "--open-mode=append",
            f"--output={spool.folder.resolve()}/%a.log",
        ]
        done = self._ask("sbatch", *options, text=script)
        if done.returncode:
            raise Failed("Slurm takes no job", why=done.stderr.strip(), do="look at its limits")
        return done.stdout.strip().partition(";")[0]

    def over(self, job: str) -> bool:
        """Whether the queue has no task of the array any more."""
        done = self._ask("squeue", "--noheader", "--jobs", job, "--format=%T")
        if done.returncode and "Invalid job id" not in done.stderr:
            self.silent += 1
            if self.silent > PATIENCE:
                raise Failed("Slurm does not answer", why=done.stderr.strip(), do="the same command goes on")
            return False
        self.silent = 0
        return not done.stdout.strip()

    def cancel(self, job: str) -> None:
        """Ends the array."""
        self._ask("scancel", job)

    def _ask(self, *words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                words, input=text, capture_output=True, text=True, timeout=COMMAND_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            return subprocess.CompletedProcess(words, 1, "", f"no answer in {error.timeout:.0f} s")
