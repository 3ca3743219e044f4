"""Ranks and nodes are lost at random; the weights at the end are those of an undisturbed run."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

PROGRAM = Path(__file__).with_name("kept_training.py")
FAULTS = 20 if os.environ.get("OGAI_SOAK") == "1" else 2
STEPS = 40 if os.environ.get("OGAI_SOAK") == "1" else 12
SEED = int(os.environ.get("OGAI_SEED", "0"))


@pytest.fixture
def memory() -> Iterator[Path]:
    folder = Path(f"/dev/shm/ogai-test-{os.getpid()}")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An undisturbed run of four ranks."""
    folder = tmp_path_factory.mktemp("calm")
    room = Path(f"/dev/shm/ogai-calm-{os.getpid()}")
    finish(folder, room, 0, 4, STEPS)
    yield folder
    shutil.rmtree(room, ignore_errors=True)


def start(folder: Path, memory: Path, attempt: int, ranks: int, steps: int) -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    command = [sys.executable, str(PROGRAM), str(folder), str(memory), str(attempt), str(ranks), str(steps)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def rows(folder: Path) -> list[list[dict[str, Any]]]:
    logs = sorted(folder.glob("log-*.jsonl"))
    return [[json.loads(line) for line in log.read_text().splitlines()] for log in logs]


def steps_done(folder: Path) -> int:
    return max((row["step"] for log in rows(folder) for row in log if "step" in row), default=-1)


def used_samples(folder: Path) -> dict[int, list[int]]:
    """What each step used in the attempt that counts: the last one that did it."""
    last: dict[int, int] = {}
    for log in rows(folder):
        for row in log:
            if "step" in row:
                step = row["step"]
                last[step] = max(last.get(step, 0), row["attempt"])
    used: dict[int, list[int]] = {step: [] for step in last}
    for log in rows(folder):
        for row in log:
            if "step" in row and last[row["step"]] == row["attempt"]:
                used[row["step"]] += row["indices"]
    return used


def kill_all(running: subprocess.Popen[str], children: list[int]) -> None:
    for child in [running.pid, *children]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    running.communicate()


def weights(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = torch.load(folder / "weights.pt", weights_only=True)
    return found


def finish(folder: Path, memory: Path, attempt: int, ranks: int, steps: int) -> None:
    _, problem = (running := start(folder, memory, attempt, ranks, steps)).communicate(timeout=300)
    assert running.returncode == 0, problem


def test_random_faults_cost_no_sample_and_change_no_weight(tmp_path: Path, memory: Path, calm: Path) -> None:
    chance = random.Random(SEED)
    folder, room = tmp_path, memory
    for attempt in range(FAULTS):
        goal = min(STEPS - 2, 2 + (attempt + 1) * (STEPS - 4) // FAULTS)
        running = start(folder, room, attempt, 4, STEPS)
        assert running.stdout is not None
        children = json.loads(running.stdout.readline())
        while steps_done(folder) < goal and running.poll() is None:
            time.sleep(0.02)
        assert running.poll() is None, running.communicate()[1]
        os.kill(chance.choice(children), signal.SIGKILL)
        kill_all(running, children)
        if chance.random() < 0.5:  # not a rank but a whole node is lost, with its memory
            shutil.rmtree(room / f"node{chance.randrange(2)}", ignore_errors=True)
    finish(folder, room, FAULTS, 4, STEPS)
    sources = {row["source"] for log in rows(folder) for row in log if "source" in row}
    assert sources <= {"memory", "replica", "storage"}
    assert "memory" in sources
    undisturbed, stormy = weights(calm), weights(folder)
    assert all(torch.equal(undisturbed[name], stormy[name]) for name in undisturbed)
    assert used_samples(folder) == used_samples(calm)
    assert not any(path.name.endswith("own-0.ckpt") for path in room.rglob("*"))  # given back at the end


def test_a_lost_node_comes_back_from_the_replica(tmp_path: Path, memory: Path) -> None:
    running = start(tmp_path, memory, 0, 4, 200)
    assert running.stdout is not None
    children = json.loads(running.stdout.readline())
    while steps_done(tmp_path) < 7:
        time.sleep(0.02)
    kill_all(running, children)
    time.sleep(1.0)  # the writers finish what is in memory
    shutil.rmtree(memory / "node1")
    shutil.rmtree(tmp_path / "checkpoints" / "latest", ignore_errors=True)
    for stored in (tmp_path / "checkpoints").glob("step-*"):
        shutil.rmtree(stored)
    finish(tmp_path, memory, 1, 4, 12)
    resumed = [[row for row in log if "source" in row] for log in rows(tmp_path)]
    assert [log[0]["source"] for log in resumed] == ["memory", "memory", "replica", "replica"]
    assert len({log[0]["resumed"] for log in resumed}) == 1


def test_another_number_of_ranks_goes_on_with_the_same_samples(
    tmp_path: Path, memory: Path, calm: Path
) -> None:
    finish(tmp_path, memory, 0, 4, STEPS // 2)
    finish(tmp_path, memory, 1, 2, STEPS)
    assert used_samples(tmp_path) == used_samples(calm)
    one, other = weights(calm), weights(tmp_path)
    assert all(torch.allclose(one[name], other[name], atol=1e-9) for name in one)
