"""The preset mpi with a real Open MPI: three nodes of a gang, no SSH between them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from l2_aistation.documents import JobSpec
from l2_aistation.launchers import Place, check, resolve

PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("mpirun", path=PATH) is None, reason="needs mpirun (Open MPI)"),
]

PROGRAM = """
import os, sys
rank, size = os.environ["OMPI_COMM_WORLD_RANK"], os.environ["OMPI_COMM_WORLD_SIZE"]
with open(f"ran-{rank}", "a") as stream:
    stream.write(f"{size} {os.environ['OMPI_COMM_WORLD_LOCAL_SIZE']} {sys.argv[1:]}")
sys.exit(int(os.environ.get("FAIL", "0")) if rank == "3" else 0)
"""


def run(shared: Path, job: str, **environment: str) -> list[int]:
    """The three nodes' tasks at once; their exit codes."""
    (shared / "program.py").write_text(PROGRAM)
    group = {
        "count": 3,
        "one_per_node": True,
        "preset": {
            "name": "mpi",
            "script": "program.py",
            "options": {"processes_per_node": 2, "epochs": 3},
        },
    }
    spec = JobSpec.parse({"producer": {"name": "t", "version": "1"}, "name": "mpi", "tasks": [group]})
    check(spec)
    tasks = []
    for rank in range(3):
        place = Place(rank, 3, 0, 1, rank, 3, "127.0.0.1", 29500, job, 1)
        launch = resolve(spec.tasks[0], place)
        variables = {
            "RANK": str(rank),
            "WORLD_SIZE": "3",
            "OGAI_SHARED_DIR": str(shared),
            "OGAI_JOB": job,
            "OGAI_ATTEMPT": "1",
        }
        words = [sys.executable, *launch.command[1:]]
        tasks.append(subprocess.Popen(words, env={**os.environ, **variables, **environment}, cwd=shared))
    return [task.wait(60) for task in tasks]


def test_ranks_start_on_every_node_and_the_job_ends_as_one(tmp_path: Path) -> None:
    assert run(tmp_path, "mpi-1") == [0, 0, 0]
    ran = {path.name: path.read_text() for path in tmp_path.glob("ran-*")}
    assert ran == {f"ran-{rank}": "6 2 ['--epochs', '3']" for rank in range(6)}


def test_a_failing_rank_ends_the_job_with_its_code(tmp_path: Path) -> None:
    """The first node tells it; the others do not make a second cause of it."""
    assert run(tmp_path, "mpi-2", FAIL="7") == [7, 0, 0]
