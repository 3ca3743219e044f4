"""What Slurm prints and answers, old and new, against what we make of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from l2_aistation.backends.mailbox import Key, Ticket
from l2_aistation.backends.slurm import words
from l2_aistation.backends.slurm.cluster import facts, places
from l2_aistation.core.events import StartTasks, TaskLaunch

TOPOLOGY = """SwitchName=leaf00 Level=0 LinkSpeed=1 Nodes=n[0-1]
SwitchName=leaf01 Level=0 LinkSpeed=1 Nodes=n2
SwitchName=spine0 Level=1 LinkSpeed=1 Nodes=n[0-2] Switches=leaf[00-01]
SwitchName=core Level=2 LinkSpeed=1 Nodes=n[0-2] Switches=spine0
"""


def test_leaves_and_spines_are_the_switches_of_levels_0_and_1() -> None:
    lists = {"n[0-1]": ["n0", "n1"], "n2": ["n2"], "n[0-2]": ["n0", "n1", "n2"]}
    assert places(TOPOLOGY, lists.__getitem__) == {
        "n0": ("leaf00", "spine0"),
        "n1": ("leaf00", "spine0"),
        "n2": ("leaf01", "spine0"),
    }


@pytest.mark.parametrize(
    ("gres", "models"),
    [
        ("gpu:4", ["gpu"] * 4),
        ("gpu:h100:8(S:0-1)", ["h100"] * 8),
        ("gpu:a100:2,gpu:h100:1,shard:16", ["a100", "a100", "h100"]),
        ("", []),
    ],
)
def test_accelerators_of_a_node(gres: str, models: list[str]) -> None:
    row = {"name": "n1", "cpus": 64, "real_memory": 1000, "gres": gres, "address": "10.0.0.1"}
    node = facts(row, {"n1": ("leaf00", "spine0")})
    assert [device.model for device in node.accelerators] == models
    assert (node.leaf, node.address, node.memory_bytes) == ("leaf00", "10.0.0.1", 1000 << 20)


@pytest.mark.parametrize("wrapped", [False, True])
def test_states_of_old_and_new_answers(wrapped: bool) -> None:
    """22.05 says a name, later versions a list of names."""

    def state(name: str) -> Any:
        return [name] if wrapped else name

    jobs = [
        {"job_id": 7, "comment": "ogai/ab/n1/x-1/1", "job_state": state("RUNNING"), "state_reason": "None"},
        {
            "job_id": 8,
            "comment": "ogai/ab/n1/x-1/2",
            "job_state": state("PENDING"),
            "state_reason": "Resources",
        },
        {"job_id": 9, "comment": "ogai/ab/n2/x-1/1", "job_state": state("NODE_FAIL"), "state_reason": "None"},
        {"job_id": 10, "comment": "ogai/cd/n1/x-1/1", "job_state": state("RUNNING")},
        {"job_id": 11, "comment": "somebody else", "job_state": state("RUNNING")},
        {"job_id": 12, "comment": None, "job_state": state("RUNNING")},
    ]
    assert words.tickets({"jobs": jobs}, "ab") == {
        Key("n1", "x-1", 1): Ticket("7", "running", "RUNNING"),
        Key("n1", "x-1", 2): Ticket("8", "waiting", "PENDING Resources"),
        Key("n2", "x-1", 1): Ticket("9", "over", "NODE_FAIL"),
    }


def test_nodes_that_may_work() -> None:
    rows = [
        {"name": "up", "state": "idle", "state_flags": [], "boot_time": 5},
        {"name": "new", "state": ["MIXED"], "boot_time": {"set": True, "number": 6}},
        {"name": "silent", "state": "idle", "state_flags": ["NOT_RESPONDING"], "boot_time": 5},
        {"name": "drained", "state": ["IDLE", "DRAIN"], "boot_time": 5},
        {"name": "down", "state": "down", "state_flags": [], "boot_time": 5},
    ]
    assert words.nodes({"nodes": rows}) == {"up": "5", "new": "6"}


def test_an_order_names_its_node_and_what_the_ranks_need() -> None:
    tasks = tuple(
        TaskLaunch(rank, rank, "worker", ("x",), accelerators=(rank,), cpu_milli=1500, memory_bytes=1 << 30)
        for rank in range(3)
    )
    start = StartTasks("x-1", 2, "n7", "tenant", 3, tasks)
    given = words.submission(start, "ab", Path("/shared/log"), ["--partition=ai"])
    assert {"--nodelist=n7", "--nodes=1", "--cpus-per-task=5", "--mem=3072M", "--gres=gpu:3"} < set(given)
    assert {"--no-requeue", "--comment=ogai/ab/n7/x-1/2", "--partition=ai"} < set(given)
    assert words.script(["a b", "c'd"]) == "#!/bin/sh\nexec 'a b' 'c'\"'\"'d'\n"
