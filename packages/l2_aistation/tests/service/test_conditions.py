"""What nodes say of themselves in their heartbeats moves jobs, and decisions replay with it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from l2_aistation._kit.tokens import Principal
from l2_aistation.core.events import Command, Condition, NodeSeen
from l2_aistation.core.pool import AcceleratorFacts, ClusterFacts, NodeFacts
from l2_aistation.ports import EventSink
from l2_aistation.service import Service, submission
from l2_aistation.service.replaying import replay_decisions
from l2_aistation.service.specs import check_spec
from l2_aistation.service.views import pool_view
from l2_aistation.settings import Settings

WHO = Principal("system", "operator", "admin")
NODES = ("m1", "m2", "m3", "m4")
CARDS = tuple(AcceleratorFacts(number, "nvidia", "H100", 80 << 30) for number in range(2))
DATA = f"sha256:{'ab' * 32}"
SOUND = Condition()


class Four:
    """Four equal nodes on one leaf; m3's report had a weak link already."""

    def cluster(self) -> ClusterFacts:
        weak = {"m3": (0,)}
        return ClusterFacts(
            "four",
            tuple(NodeFacts(name, 8, 0, CARDS, "leaf", weak_rails=weak.get(name, ())) for name in NODES),
        )


class Nothing:
    """Takes commands and does nothing."""

    name = "local"

    def open(self, sink: EventSink) -> None:
        """Nothing to open."""

    def send(self, command: Command) -> None:
        """Drops it."""

    def close(self) -> None:
        """Nothing to close."""


class Bench:
    """A platform stepped by hand."""

    def __init__(self, home: Path) -> None:
        self.now = 1_000_000.0
        options = Settings.load(home=home, node_lost_s=50.0, heartbeat_s=1.0)
        engine = Nothing()
        self.service = Service(
            options, make=lambda _name, _settings: engine, source=Four(), clock=lambda: self.now
        )
        self.service.last_tick = self.now
        self.service.platform.load()
        self.conditions: dict[str, Condition | None] = dict.fromkeys(NODES, SOUND)
        self.beat()

    def beat(self, later_s: float = 1.0, **said: Condition | None) -> None:
        self.conditions.update(said)
        self.now += later_s
        for name, condition in self.conditions.items():
            self.service.beats[name] = NodeSeen(name, self.now, condition=condition)
        self.service.one_pass([])

    def submit(self, count: int = 1, accelerators: int = 2, **more: Any) -> str:
        group = {"count": count, "command": ["x"], "resources": {"accelerators": accelerators}}
        checked = check_spec({"name": "job", "tasks": [group], **more})
        future: Future[Any] = Future()
        self.service.one_pass([(lambda platform: submission.submit(platform, WHO, checked), future)])
        return str(future.result())

    def nodes(self, job: str) -> list[str]:
        attempt = self.service.platform.attempts.get(job)
        return [] if attempt is None else attempt.nodes

    def same(self) -> bool:
        return bool(replay_decisions(self.service)["same"])


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    one = Bench(tmp_path)
    yield one
    one.service.recovery.close()
    one.service.store.close()


def test_faulty_nodes_are_avoided_while_they_say_so(bench: Bench) -> None:
    bench.beat(m1=Condition(faults=("memory: 2 uncorrected errors",)))
    assert bench.nodes(bench.submit()) == ["m2"]
    bench.beat(m1=SOUND)
    assert bench.nodes(bench.submit()) == ["m1"]
    changes = [row["body"] for row in bench.service.store.log(limit=1000) if row["kind"] == "node"]
    said = [body["faults"] for body in changes if body["change"] == "condition"]
    assert said == [["memory: 2 uncorrected errors"], []]
    assert bench.same()


def test_gangs_that_leave_a_node_avoid_weak_links(bench: Bench) -> None:
    """What the report said of m3 goes on to hold though its heartbeats say nothing of it."""
    bench.beat(m1=Condition(weak_links=("eth0",)))
    assert bench.nodes(bench.submit(count=2)) == ["m2", "m4"]
    rows = pool_view(bench.service.platform, WHO)["nodes"]
    assert {row["id"]: row["weak_links"] for row in rows if row["weak_links"]} == {"m1": ["eth0"]}
    assert bench.same()


def test_a_job_waits_for_nodes_with_its_data_but_not_long(bench: Bench) -> None:
    bench.beat(m3=Condition(data=(DATA, "not a digest")))
    first, second = bench.submit(data=[DATA]), bench.submit(data=[DATA])
    assert (bench.nodes(first), bench.nodes(second)) == (["m3"], [])
    bench.beat(m2=Condition(data=(DATA,)))  # another node has it now
    assert bench.nodes(second) == ["m2"]
    third = bench.submit(data=[DATA])
    bench.beat(50.0)
    assert bench.nodes(third) == []
    bench.beat(30.0)
    assert bench.nodes(third) == ["m1"]
    assert bench.same()


def test_heartbeats_without_a_condition_change_nothing(bench: Bench) -> None:
    bench.beat(m1=Condition(data=(DATA,)))
    bench.beat(m1=None)
    assert bench.service.platform.world.pool.cached[DATA].tolist() == [True, False, False, False]
    bench.beat(m1=SOUND)
    assert not bench.service.platform.world.pool.cached


OFF_BUS = Condition(faults=("gpu_off_bus 0000:3b:00: GPU has fallen off the bus",))


def changes_of(bench: Bench, node: str) -> list[dict[str, Any]]:
    rows = bench.service.store.log(limit=1000)
    found = [row["body"] for row in rows if row["kind"] == "node" and row["body"].get("node") == node]
    return [body for body in found if "cordoned" in body["change"]]


def test_a_node_with_broken_hardware_is_cordoned_with_the_reason(bench: Bench) -> None:
    bench.beat(m1=OFF_BUS)
    rows = {row["id"]: row for row in pool_view(bench.service.platform, WHO)["nodes"]}
    assert (rows["m1"]["state"], rows["m1"]["reason"]) == ("cordoned", "gpu_off_bus")
    bench.beat(m1=SOUND)  # it stays out until somebody has looked at it
    assert bench.nodes(bench.submit()) == ["m2"]
    assert [body["change"] for body in changes_of(bench, "m1")] == ["cordoned"]
    assert bench.same()


def test_no_more_than_the_budget_is_cordoned_by_itself(bench: Bench) -> None:
    """Of four nodes one may be out; a second one is told to people and stays in, though it is avoided."""
    bench.beat(m1=OFF_BUS)
    bench.beat(later_s=1000.0, m2=OFF_BUS)
    assert set(bench.service.platform.cordons) == {"m1"}
    (told,) = changes_of(bench, "m2")
    assert told["change"] == "not cordoned"
    assert "budget" in told["why"]
    assert bench.nodes(bench.submit()) == ["m3"]
    assert bench.same()


def test_half_of_the_nodes_at_once_is_not_the_nodes_fault(bench: Bench) -> None:
    bench.beat(m2=OFF_BUS, m3=OFF_BUS, m4=OFF_BUS)
    assert len(bench.service.platform.cordons) <= 1
    assert any("what they share" in body.get("why", "") for name in NODES for body in changes_of(bench, name))


def test_what_is_no_hardware_fault_of_the_vocabulary_cordons_nothing(bench: Bench) -> None:
    bench.beat(m1=Condition(faults=("storage_unavailable /shared: no answer",)))
    assert bench.service.platform.cordons == {}
