"""The published kit over a real Slurm: munged, slurmctld and two slurmd with fake accelerators."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from l2_aistation._kit.tokens import TokenStore
from l2_aistation.backends.mailbox import MailboxEngine
from l2_aistation.backends.slurm import SlurmCluster, SlurmManager
from l2_aistation.core.events import (
    EndTasks,
    StartTasks,
    TaskExited,
    TaskLaunch,
    TasksEnded,
    TaskStarted,
)
from l2_aistation.loopback_slurm import LoopbackSlurm, missing
from l2_aistation.settings import Settings
from l2_aistation.supervisor.mailbox import Box
from l2_aistation.testing import SLEEP, EngineConformance, EngineLab, Recorder, alive, start
from l2_aistation.web import create_app

pytestmark = [pytest.mark.real, pytest.mark.skipif(bool(missing()), reason=missing())]


class Lab:
    """A Slurm, a shared folder, and engines over them."""

    def __init__(self, folder: Path, slurm: LoopbackSlurm) -> None:
        self.slurm, self.shared = slurm, folder / "shared"
        self.shared.mkdir()

    def open_engine(self) -> MailboxEngine:
        root = self.shared / ".aistation.slurm"
        return MailboxEngine(
            SlurmManager(root, self.shared, heartbeat_s=0.3), root / "nodes", heartbeat_s=0.3
        )


@pytest.fixture(scope="module")
def module_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("slurm")
    with (
        LoopbackSlurm(folder / "slurm", nodes=2, accelerators=4) as slurm,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
        yield Lab(folder, slurm)


class TestSlurmEngine(EngineConformance):
    @pytest.fixture
    def lab(self, module_lab: Lab) -> EngineLab:
        return EngineLab(open_engine=module_lab.open_engine, nodes=("n1", "n2"), shared=module_lab.shared)


@pytest.fixture
def engine(module_lab: Lab) -> Iterator[tuple[MailboxEngine, Recorder]]:
    engine, sink = module_lab.open_engine(), Recorder(f"own-{os.urandom(4).hex()}")
    engine.open(sink)
    yield engine, sink
    for job, attempt, node in {(e.job, e.attempt, e.node) for e in sink.of(TaskStarted)}:
        engine.send(EndTasks(job, attempt, node, 0.0))
        sink.wait(TasksEnded, job=job, attempt=attempt, node=node)
    engine.close()


def gang(job: str, node: str, code: str, devices: tuple[tuple[int, ...], ...]) -> StartTasks:
    tasks = tuple(
        TaskLaunch(rank, rank, "worker", ("python", "-c", code), {"RANK": str(rank)}, mine, 1000, 1 << 30)
        for rank, mine in enumerate(devices)
    )
    return StartTasks(job, 1, node, "tenant", len(tasks), tasks)


def orders(lab: Lab, job: str) -> list[dict[str, Any]]:
    """Slurm's own account of what was ordered for a job."""
    jobs: list[dict[str, Any]] = json.loads(lab.slurm.run("squeue", "--states=all", "--json"))["jobs"]
    return [one for one in jobs if f"/{job}/" in one["comment"]]


def states(lab: Lab, job: str) -> list[str]:
    return [one["job_state"] for one in orders(lab, job)]


def test_slurm_gives_what_the_placement_says(module_lab: Lab, engine: tuple[MailboxEngine, Recorder]) -> None:
    """The node, the cores, the memory and the number of devices; each rank sees its own devices."""
    slurm, sink = engine
    code = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['SLURMD_NODENAME'])"
    slurm.send(gang(sink.job, "n2", code, ((2,), (1, 3))))
    tails = {event.rank: event.tail for event in sink.wait(TaskExited, 2)}
    (order,) = orders(module_lab, sink.job)
    assert (order["nodes"], order["required_nodes"]) == ("n2", "n2")
    assert order["tres_req_str"].startswith("cpu=2,mem=2G,node=1")
    assert order["gres_detail"] == ["gpu:3(IDX:0-2)"]
    assert tails == {0: ("1 n2",), 1: ("0,2 n2",)}  # of the devices 0, 1, 2 that Slurm chose


def test_an_order_that_waits_is_taken_back(module_lab: Lab, engine: tuple[MailboxEngine, Recorder]) -> None:
    """The node is full: nothing starts; ended, it leaves Slurm's queue and the node alone."""
    slurm, sink = engine
    slurm.send(gang(f"{sink.job}-a", "n1", SLEEP, ((0, 1, 2, 3),)))
    sink.wait(TaskStarted)
    slurm.send(gang(f"{sink.job}-b", "n1", SLEEP, ((0,),)))
    wait_for(lambda: states(module_lab, f"{sink.job}-b") == ["PENDING"])
    slurm.send(EndTasks(f"{sink.job}-b", 1, "n1", 0.0))
    sink.wait(TasksEnded, job=f"{sink.job}-b")
    assert states(module_lab, f"{sink.job}-b") == ["CANCELLED"]
    assert sink.of(TaskStarted, job=f"{sink.job}-b") == []


def test_what_slurm_ends_is_told_with_its_words(
    module_lab: Lab, engine: tuple[MailboxEngine, Recorder]
) -> None:
    """An administrator's scancel is no success and no user's fault."""
    slurm, sink = engine
    slurm.send(
        start(sink.job, "n1", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)")
    )
    pid = sink.wait(TaskStarted)[0].pid
    (order,) = orders(module_lab, sink.job)
    module_lab.slurm.run("scancel", str(order["job_id"]))
    exited = sink.wait(TaskExited)[0]
    assert exited.code is None
    assert exited.signal == signal.SIGTERM or "CANCELLED" in exited.tail[0]
    wait_for(lambda: not alive(pid))


def test_a_refusal_is_told(module_lab: Lab, engine: tuple[MailboxEngine, Recorder]) -> None:
    """A node that Slurm does not know: its words, and nobody else waits behind it."""
    slurm, sink = engine
    slurm.send(start(f"{sink.job}-a", "n77", SLEEP))
    slurm.send(start(f"{sink.job}-b", "n1", "pass"))
    exited = sink.wait(TaskExited, job=f"{sink.job}-a")[0]
    assert exited.lost
    assert "Invalid node name" in exited.tail[0]
    assert sink.wait(TaskExited, job=f"{sink.job}-b")[0].code == 0
    slurm.send(EndTasks(f"{sink.job}-a", 1, "n77"))
    sink.wait(TasksEnded, job=f"{sink.job}-a")


def test_a_platform_killed_after_its_order_finds_it_again(module_lab: Lab) -> None:
    """kill -9 between sbatch and anything else: one Slurm job, one process."""
    job = f"own-{os.urandom(4).hex()}"
    command = start(job, "n1", SLEEP)
    root = module_lab.shared / ".aistation.slurm"
    box = Box(root / "nodes" / "n1" / job)
    box.put(1, "start", command)
    SlurmManager(root, module_lab.shared, heartbeat_s=0.3).submit(command, box)  # and here it is killed
    engine, sink = module_lab.open_engine(), Recorder(job)
    engine.open(sink)
    engine.send(command)
    sink.wait(TaskStarted)
    time.sleep(1.0)
    assert len(orders(module_lab, job)) == 1
    assert len({event.pid for event in sink.of(TaskStarted)}) == 1
    engine.send(EndTasks(job, 1, "n1", 0.0))
    sink.wait(TasksEnded)
    engine.close()


def test_a_dead_controller_is_waited_for(module_lab: Lab, engine: tuple[MailboxEngine, Recorder]) -> None:
    """slurmctld is killed and comes back: the ranks run on, what ended meanwhile is delivered."""
    slurm, sink = engine
    slurm.send(start(sink.job, "n2", "import time; time.sleep(3)"))
    sink.wait(TaskStarted)
    module_lab.slurm.kill("slurmctld")
    slurm.send(start(f"{sink.job}-b", "n1", "pass"))
    assert sink.wait(TaskExited, job=sink.job)[0].code == 0
    module_lab.slurm.start_controller()
    assert sink.wait(TaskExited, job=f"{sink.job}-b")[0].code == 0


def test_the_pool_is_what_slurm_knows(module_lab: Lab) -> None:
    cluster = SlurmCluster().cluster()
    assert cluster.name == "loopback"
    assert [(node.id, node.cpu_cores, node.memory_bytes, node.engine) for node in cluster.nodes] == [
        ("n1", 8, 8000 << 20, "slurm"),
        ("n2", 8, 8000 << 20, "slurm"),
    ]
    assert [len(node.accelerators) for node in cluster.nodes] == [4, 4]
    assert {node.address for node in cluster.nodes} == {"127.0.0.1"}


def test_a_job_that_slurm_takes_down_is_healed(module_lab: Lab, tmp_path: Path) -> None:
    """The platform over Slurm's own pool: a part is cancelled, the gang starts again and completes."""
    settings = Settings.load(home=tmp_path, engine="slurm", shared_dir=module_lab.shared, heartbeat_s=0.3)
    headers = {"Authorization": f"Bearer {TokenStore(settings.tokens_file).admin_token()}"}
    code = "import os, time; time.sleep(600 if os.environ['OGAI_ATTEMPT'] == '1' else 0)"
    group = {"count": 2, "one_per_node": True, "command": ["python", "-c", code]}
    spec = {"name": "healed", "tasks": [{**group, "resources": {"accelerators": 4}}]}
    with TestClient(create_app(settings)) as client:

        def view(job: str) -> dict[str, Any]:
            found: dict[str, Any] = client.get(f"/api/v1/jobs/{job}", headers=headers).json()
            return found

        job = client.post("/api/v1/jobs", json=spec, headers=headers).json()["id"]
        wait_for(lambda: view(job)["state"] == "running", 40)
        victim = next(one for one in orders(module_lab, job) if one["nodes"] == "n2")
        module_lab.slurm.run("scancel", str(victim["job_id"]))
        wait_for(lambda: view(job)["state"] == "completed", 60)
        attempts = view(job)["attempts"]
    assert len(attempts) == 2
    assert sorted(place["node"] for place in attempts[1]["placement"]) == ["n1", "n2"]


def wait_for(condition: Callable[[], bool], within_s: float = 20.0) -> None:
    until = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)
