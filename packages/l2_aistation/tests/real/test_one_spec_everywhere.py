"""The same job-spec on every engine that can run here: local, agent and slurm, on two nodes each."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from l2_aistation import loopback_slurm
from l2_aistation._kit.problems import Unavailable
from l2_aistation._kit.tokens import TokenStore
from l2_aistation.broker import program, url_for_agents
from l2_aistation.core.pool import AcceleratorFacts, ClusterFacts, NodeFacts
from l2_aistation.service import Service
from l2_aistation.settings import Settings
from l2_aistation.web import create_app

pytestmark = pytest.mark.real

SCRIPT = """
import json, os, pathlib, sys
from l2_aistation.progress import step
names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
         "MASTER_ADDR", "OGAI_PEERS", "GLOO_SOCKET_IFNAME", "CUDA_VISIBLE_DEVICES",
         "TORCHELASTIC_RESTART_COUNT"]
seen = {name: os.environ[name] for name in names}
seen["arguments"] = sys.argv[1:]
seen["hostfile"] = pathlib.Path(os.environ["OGAI_HOSTFILE"]).read_text()
shared = os.environ["OGAI_SHARED_DIR"]
seen["checkpoint"] = os.environ["OGAI_CHECKPOINT_DIR"] == os.path.join(shared, "runs/x")
seen["here"] = os.getcwd() == shared
pathlib.Path(f"seen-{os.environ['RANK']}.json").write_text(json.dumps(seen))
step(3, loss=1.5)
"""

SPEC = {
    "name": "same",
    "tasks": [
        {
            "count": 4,
            "preset": {"name": "torchrun", "script": "seen.py", "options": {"epochs": 2}},
            "resources": {"cpu_cores": 1, "accelerators": 2},
        }
    ],
    "checkpoint": {"path": "runs/x", "every_steps": 10},
}


def expected(rank: int) -> dict[str, Any]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": "4",
        "LOCAL_RANK": str(rank % 2),
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": str(rank // 2),
        "GROUP_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.2",
        "OGAI_PEERS": "127.0.0.2:2,127.0.0.3:2",
        "GLOO_SOCKET_IFNAME": "lo",
        "CUDA_VISIBLE_DEVICES": "0,1" if rank % 2 == 0 else "2,3",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "arguments": ["--epochs", "2"],
        "hostfile": "127.0.0.2 slots=2\n127.0.0.3 slots=2\n",
        "checkpoint": True,
        "here": True,
    }


class TwoNodes:
    """Two nodes of four accelerators, started by one engine."""

    def __init__(self, engine: str) -> None:
        self._engine = engine

    def cluster(self) -> ClusterFacts:
        cards = tuple(AcceleratorFacts(number, "nvidia", "H100", 80 << 30) for number in range(4))
        nodes = (
            NodeFacts(
                f"n{n}", 4, 1 << 34, cards, "leaf1", "spine1", address=f"127.0.0.{n + 1}", engine=self._engine
            )
            for n in (1, 2)
        )
        return ClusterFacts("two nodes", tuple(nodes))


@contextlib.contextmanager
def agents(folder: Path, settings: Settings) -> Iterator[None]:
    """An agent for each node, once the platform's broker is there."""
    with contextlib.ExitStack() as stack:
        for node in ("n1", "n2"):
            environment = {
                **os.environ,
                "OGAI_HOME": str(folder / node),
                "OGAI_L2_BROKER_URL": url_for_agents(settings),
                "OGAI_L2_SHARED_DIR": str(settings.shared),
            }
            words = [sys.executable, "-m", "l2_aistation", "agent", "--node", node]
            agent = stack.enter_context(subprocess.Popen(words, env=environment))
            stack.callback(agent.kill)
        yield


@contextlib.contextmanager
def outside(engine: str, folder: Path) -> Iterator[None]:
    """What an engine needs before the platform starts."""
    if engine == "agent":
        try:
            program.find()
        except Unavailable as problem:
            pytest.skip(str(problem))
    if engine != "slurm":
        yield
        return
    if reason := loopback_slurm.missing():
        pytest.skip(reason)
    slurm = loopback_slurm.LoopbackSlurm(folder / "slurm", nodes=2, accelerators=4)
    with slurm, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
        yield


@pytest.mark.parametrize("engine", ["local", "agent", "slurm"])
def test_the_same_spec_runs_alike(engine: str, tmp_path: Path) -> None:
    settings = Settings.load(home=tmp_path / "home", heartbeat_s=0.3)
    settings.shared.mkdir(parents=True)
    if engine == "local":  # it beats for nodes that it has heard of
        for node in ("n1", "n2"):
            (settings.state_dir / "engine" / node).mkdir(parents=True)
    (settings.shared / "seen.py").write_text(SCRIPT)
    app = create_app(settings, service=lambda options: Service(options, source=TwoNodes(engine)))
    headers = {"Authorization": f"Bearer {TokenStore(settings.tokens_file).admin_token()}"}
    with outside(engine, tmp_path), TestClient(app) as client:
        nodes = agents(tmp_path, settings) if engine == "agent" else contextlib.nullcontext()
        with nodes:
            job = client.post("/api/v1/jobs", json=SPEC, headers=headers).json()["id"]
            until = time.monotonic() + 60
            while (view := client.get(f"/api/v1/jobs/{job}", headers=headers).json())["state"] != "completed":
                assert time.monotonic() < until, json.dumps(view)
                assert view["state"] not in ("failed", "cancelled"), json.dumps(view)
                time.sleep(0.1)
            record = client.get(f"/api/v1/jobs/{job}/record", headers=headers).json()
    seen = [json.loads((settings.shared / f"seen-{rank}.json").read_text()) for rank in range(4)]
    assert seen == [expected(rank) for rank in range(4)]
    assert [(one["node"], one["accelerators"]) for one in record["attempts"][0]["placement"]] == [
        *(("n1", [0, 1]), ("n1", [2, 3]), ("n2", [0, 1]), ("n2", [2, 3]))
    ]
    assert [sample["loss"] for sample in record["steps"]] == [1.5]
