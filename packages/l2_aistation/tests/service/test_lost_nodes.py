"""A node that falls silent: held, named with what L0 says of its power, replaced by a spare in the
same leaf with ranks kept, resumed; and what is sent to whom on the way."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from l2_aistation._kit.tokens import Principal
from l2_aistation.core.events import (
    CheckpointSaved,
    Command,
    EndTasks,
    Event,
    NodeSeen,
    StartTasks,
    StepReported,
    TaskExited,
    TasksEnded,
    TaskStarted,
    WarmTasks,
)
from l2_aistation.core.pool import ClusterFacts, NodeFacts
from l2_aistation.ports import EventSink, PowerSource
from l2_aistation.service import Service, healing, jobs, views
from l2_aistation.service.platform import Platform
from l2_aistation.settings import Settings

WHO = Principal("system", "operator", "admin")
LEAVES = {"m1": "leaf1", "m2": "leaf1", "m3": "leaf2", "m4": "leaf2", "m5": "leaf1", "m6": "leaf2"}


class Lab:
    """Four nodes and a spare on each leaf."""

    def cluster(self) -> ClusterFacts:
        return ClusterFacts(
            "lab",
            tuple(NodeFacts(name, 2, 0, (), leaf, spare=name > "m4") for name, leaf in LEAVES.items()),
        )


class Wire:
    """Keeps the commands."""

    name = "local"

    def __init__(self) -> None:
        self.sent: list[Command] = []

    def open(self, _sink: EventSink) -> None:
        """Nothing to open."""

    def send(self, command: Command) -> None:
        self.sent.append(command)

    def close(self) -> None:
        """Nothing to close."""


class Power:
    """Says that every node is off."""

    def power(self, _node: str) -> str | None:
        return "off"


class Bench:
    """A platform stepped by hand."""

    def __init__(self, home: Path, power: PowerSource | None = None) -> None:
        self.now = 1_000_000.0
        self.wire = Wire()
        self.alive = set(LEAVES)
        options = Settings.load(home=home, node_lost_s=5.0, heartbeat_s=1.0, grace_s=1.0)
        self.service = Service(
            options,
            make=lambda _name, _settings: self.wire,
            source=Lab(),
            clock=lambda: self.now,
            power=power,
        )
        self.service.last_tick = self.now
        self.service.platform.load()
        self.service.engines.need(["local"], self.service.sink)
        self.beat()

    def close(self) -> None:
        self.service.recovery.close()
        self.service.store.close()

    def beat(self) -> None:
        for name in self.alive:
            self.service.beats[name] = NodeSeen(name, self.now)
        self.service.one_pass([])

    def call(self, operation: Any) -> Any:
        future: Future[Any] = Future()
        self.service.one_pass([(operation, future)])
        return future.result()

    def events(self, *events: Event) -> None:
        def apply_all(platform: Platform) -> None:
            for event in events:
                healing.apply(platform, event)

        self.call(apply_all)

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += 0.5
            self.beat()

    def take(self, kind: type[Any]) -> list[Any]:
        found = [command for command in self.wire.sent if isinstance(command, kind)]
        self.wire.sent = [command for command in self.wire.sent if not isinstance(command, kind)]
        return found

    def submit(self, **more: Any) -> str:
        group = {"count": 4, "command": ["train"], "one_per_node": True, **more.pop("group", {})}
        checked = jobs.check_spec({"name": "train", "tasks": [group], **more})
        return str(self.call(lambda platform: jobs.submit(platform, WHO, checked)))

    def start(self, job: str) -> list[StartTasks]:
        started: list[StartTasks] = self.take(StartTasks)
        for command in started:
            for task in command.tasks:
                at = (command.job, command.attempt, command.node, task.rank)
                self.events(TaskStarted(*at, self.now))
        return started

    def confirm_ends(self) -> None:
        for command in self.take(EndTasks):
            if command.node in self.alive:
                self.events(TasksEnded(command.job, command.attempt, command.node, self.now))

    def state(self, job: str) -> dict[str, Any]:
        return views.job_detail(self.service, WHO, job)


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    made: list[Bench] = []

    def make(power: PowerSource | None = None) -> Bench:
        made.append(Bench(tmp_path, power))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_silent_node_s_ranks_go_to_the_spare_of_its_leaf(bench: Any) -> None:
    lab: Bench = bench(Power())
    job = lab.submit(checkpoint={"path": "runs/one", "every_steps": 5})
    first = lab.start(job)
    assert [command.node for command in first] == ["m1", "m2", "m3", "m4"]
    ranks = {command.node: [task.rank for task in command.tasks] for command in first}
    for step in range(1, 9):
        lab.events(StepReported(job, 1, "m1", 0, step, lab.now, 3.0 / step))
    lab.events(CheckpointSaved(job, 1, "m1", 0, 5, lab.now))
    lab.alive.discard("m3")
    lab.pass_time(7)
    assert lab.state(job)["state"] == "held"
    ended = lab.wire.sent
    assert all(command.keep_warm for command in ended if isinstance(command, EndTasks))
    lab.confirm_ends()
    for _ in range(50):
        lab.beat()
        if lab.state(job)["attempt"] == 2:
            break
        lab.now += 0.1
    second = lab.start(job)
    assert {command.node: [task.rank for task in command.tasks] for command in second} == {
        "m1": ranks["m1"],
        "m2": ranks["m2"],
        "m6": ranks["m3"],
        "m4": ranks["m4"],
    }
    assert len({command.environment["MASTER_PORT"] for command in first + second}) == 2
    lab.events(StepReported(job, 2, "m1", 0, 6, lab.now, 0.5))
    view = lab.state(job)
    assert view["state"] == "running"
    fault = view["faults"][0]
    assert (fault["label"], fault["node"], fault["action"]) == ("node_lost", "m3", "replace")
    assert any("off" in line for line in fault["evidence"]), fault["evidence"]
    attempt = view["attempts"][1]
    assert attempt["replaced"] == {"m3": "m6"}
    assert (attempt["resumed_from"], attempt["lost_steps"]) == (5, 3)


def test_a_lost_node_that_comes_back_is_told_to_end_what_it_still_runs(bench: Any) -> None:
    lab: Bench = bench()
    job = lab.submit()
    lab.start(job)
    lab.alive.discard("m3")
    lab.pass_time(7)
    lab.confirm_ends()
    lab.pass_time(1)
    assert lab.start(job)
    lab.take(EndTasks)
    lab.alive.add("m3")
    lab.service.beats["m3"] = NodeSeen("m3", lab.now, attempts=((job, 1),))
    lab.service.one_pass([])
    assert [(item.node, item.attempt, item.keep_warm) for item in lab.take(EndTasks)] == [("m3", 1, False)]
    assert lab.state(job)["state"] == "running"


def test_without_a_stand_in_the_job_waits_and_then_queues(bench: Any) -> None:
    lab: Bench = bench()
    job = lab.submit()
    lab.start(job)
    lab.alive -= {"m3", "m5", "m6"}
    lab.pass_time(7)
    lab.confirm_ends()
    lab.pass_time(3)
    assert lab.state(job)["state"] == "held"
    why = lab.call(lambda platform: views.explain_job(platform, WHO, job))
    assert "m3" in why["words"]
    lab.pass_time(70)
    assert lab.state(job)["state"] == "queued"
    why = lab.call(lambda platform: views.explain_job(platform, WHO, job))
    assert why["words"] == "needs 4 nodes, free are 3"
    lab.alive.add("m3")
    lab.pass_time(1)
    assert lab.state(job)["state"] == "resuming"
    lab.start(job)
    assert (lab.state(job)["state"], lab.state(job)["attempt"]) == ("running", 2)


def test_all_nodes_silent_at_once_is_the_platform_s_fault(bench: Any) -> None:
    lab: Bench = bench()
    job = lab.submit()
    lab.start(job)
    lab.alive.clear()
    lab.pass_time(30)
    assert lab.state(job)["state"] == "running"


def test_the_nearest_spare_is_warmed_and_let_go(bench: Any) -> None:
    lab: Bench = bench()
    job = lab.submit(group={"count": 2, "environment": {"OGAI_PREIMPORT": "json"}})
    lab.start(job)
    (warm,) = lab.take(WarmTasks)
    assert LEAVES[warm.node] == LEAVES[lab.state(job)["attempts"][0]["placement"][0]["node"]]
    assert warm.tasks[0].environment["OGAI_PREIMPORT"] == "json"
    for rank, place in enumerate(lab.state(job)["attempts"][0]["placement"]):
        lab.events(TaskExited(job, 1, place["node"], rank, lab.now, 0))
    assert lab.state(job)["state"] == "completed"
    assert warm.node in {item.node for item in lab.take(EndTasks)}


def test_a_start_that_was_lost_on_its_way_is_sent_again(bench: Any) -> None:
    lab: Bench = bench()
    job = lab.submit()
    first = lab.take(StartTasks)
    for command in first[1:]:
        for task in command.tasks:
            lab.events(TaskStarted(job, 1, command.node, task.rank, lab.now))
    lab.pass_time(12)
    assert lab.start(job) == first[:1]
    assert lab.state(job)["state"] == "running"


def test_a_start_that_never_comes_is_a_fault(bench: Any) -> None:
    lab: Bench = bench()
    job = lab.submit(restart={"max_attempts": 1})
    lab.pass_time(125)
    lab.confirm_ends()
    lab.pass_time(8)
    view = lab.state(job)
    assert view["attempts"][0]["cause"] is not None
    log = lab.service.store.log(job=job)
    assert any("did not start in 120 s" in str(entry["body"].get("why")) for entry in log)


def test_a_node_that_was_started_anew_is_asked_for_its_ranks(bench: Any) -> None:
    from l2_aistation.core.events import AttendTasks

    lab: Bench = bench()
    job = lab.submit()
    lab.start(job)
    lab.service.beats["m2"] = NodeSeen("m2", lab.now, "other boot")
    lab.service.one_pass([])
    assert [(item.node, item.ranks) for item in lab.take(AttendTasks)] == [("m2", (1,))]
    lab.events(TaskExited(job, 1, "m2", 1, lab.now, None, None, lost=True))
    assert lab.state(job)["state"] == "held"


def test_an_elastic_gang_goes_on_smaller_in_whole_units_and_grows_again(bench: Any) -> None:
    """No spare is left: 3 of 4 nodes are 2, in units of 2; ten minutes after they came back, 4 again."""
    lab: Bench = bench()
    job = lab.submit(gang={"min": 2, "max": 4, "unit": 2})
    lab.start(job)
    lab.events(StepReported(job, 1, "m1", 0, 1, lab.now, 1.0))
    lab.alive -= {"m3", "m5", "m6"}
    lab.pass_time(14)
    lab.confirm_ends()
    lab.pass_time(2)
    second = lab.start(job)
    assert {command.node: [task.rank for task in command.tasks] for command in second} == {
        "m1": [0],
        "m2": [1],
    }
    assert {command.environment["WORLD_SIZE"] for command in second} == {"2"}
    view = lab.state(job)
    assert view["state"] == "running"
    assert view["faults"][0]["label"] == "node_lost"
    why = [entry["body"].get("why", "") for entry in lab.service.store.log(job=job)]
    assert any("goes on with 2 of 4 tasks" in words for words in why)
    lab.alive |= {"m3", "m5", "m6"}
    lab.pass_time(595)
    lab.events(CheckpointSaved(job, 2, "m1", 0, 90, lab.now))  # so that a restart costs little
    lab.pass_time(20)
    lab.confirm_ends()
    lab.pass_time(3)
    third = lab.start(job)
    assert sorted(command.node for command in third) == ["m1", "m2", "m3", "m4"]
    assert lab.state(job)["attempt"] == 3
    assert len(lab.state(job)["faults"]) == 1


def test_a_gang_that_is_not_elastic_waits_for_a_stand_in(bench: Any) -> None:
    lab: Bench = bench()
    job = lab.submit()
    lab.start(job)
    lab.alive -= {"m3", "m5", "m6"}
    lab.pass_time(14)
    lab.confirm_ends()
    lab.pass_time(2)
    assert lab.start(job) == []
    assert lab.state(job)["state"] == "held"
