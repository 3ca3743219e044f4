"""The platform under any order of events: a state machine that also crashes between any two steps.

The engine here is a list of commands: the machine decides which of them arrive, when, and what the
nodes answer; everything else (loop, store, healing, recovery) is the shipped code.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule
from l2_aistation._kit.problems import Conflict, NotFound, Problem
from l2_aistation._kit.tokens import Principal
from l2_aistation.core.dependencies import circle
from l2_aistation.core.events import (
    Command,
    EndTasks,
    NodeSeen,
    StartTasks,
    StepReported,
    TaskExited,
    TasksEnded,
    TaskStarted,
)
from l2_aistation.core.pool import AcceleratorFacts, ClusterFacts, NodeFacts
from l2_aistation.core.states import FINAL, HOLDING, WAITING, JobState
from l2_aistation.ports import EventSink
from l2_aistation.service import Service, healing, jobs, nodes, replaying
from l2_aistation.service.platform import Platform
from l2_aistation.settings import Settings

pytestmark = pytest.mark.timeout(1800)
SOAK = os.environ.get("OGAI_SOAK") == "1"
WHO = Principal("system", "operator", "admin")
NAMES = ["n1", "n2", "n3", "n4", "n5"]
CARDS = tuple(AcceleratorFacts(number, "nvidia", "H100") for number in range(2))


class Cluster:
    """Four nodes with two accelerators on two leaves, and a spare."""

    def cluster(self) -> ClusterFacts:
        return ClusterFacts(
            "lab",
            tuple(
                NodeFacts(name, 8, 0, CARDS, "leaf2" if name in ("n3", "n4") else "leaf1", spare=name == "n5")
                for name in NAMES
            ),
        )


class Wire:
    """Keeps commands until the machine delivers or loses them."""

    name = "local"

    def __init__(self) -> None:
        self.commands: list[Command] = []

    def open(self, _sink: EventSink) -> None:
        """Nothing to open."""

    def send(self, command: Command) -> None:
        self.commands.append(command)

    def close(self) -> None:
        """Nothing to close."""


class PlatformMachine(RuleBasedStateMachine):
    """Users, nodes, faults and crashes in any order."""

    submitted = Bundle("submitted")

    @initialize()
    def begin(self) -> None:
        base = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.home = Path(tempfile.mkdtemp(dir=base))
        self.now = 1_000_000.0
        self.ids = itertools.count(1)
        self.alive = set(NAMES)
        self.wire = Wire()
        self.running: dict[str, set[tuple[str, int, int]]] = {name: set() for name in NAMES}
        self.accepted: set[str] = set()
        self.service = self._start()

    def _start(self) -> Service:
        options = Settings.load(home=self.home, node_lost_s=5.0, heartbeat_s=1.0, grace_s=1.0)
        service = Service(
            options, make=lambda _name, _settings: self.wire, source=Cluster(), clock=self._clock
        )
        service.platform.new_id = lambda name: f"{name}-{next(self.ids)}"
        service.platform.started_at = service.last_tick = self.now
        service.platform.load()
        for name in NAMES:
            service.platform.seen[name] = self.now
        service.engines.need(["local"], service.sink)
        healing.send_again(service.platform)
        self._beat(service)
        return service

    def _clock(self) -> float:
        return self.now

    def teardown(self) -> None:
        self.service.store.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def _call(self, operation: Any) -> Any:
        future: Future[Any] = Future()
        self.service.one_pass([(operation, future)])
        return future.result()

    def _events(self, *events: Any) -> None:
        def apply_all(platform: Platform) -> None:
            for event in events:
                healing.apply(platform, event)

        self._call(apply_all)

    def _beat(self, service: Service) -> None:
        for name in self.alive:
            attempts = tuple(sorted({(job, number) for job, number, _ in self.running[name]}))
            service.beats[name] = NodeSeen(name, self.now, "boot", attempts)

    # -- users ---------------------------------------------------------------------------------------

    @rule(
        target=submitted,
        count=st.integers(1, 5),
        accelerators=st.integers(0, 2),
        one=st.booleans(),
        priority=st.integers(-1, 1),
    )
    def submit(self, count: int, accelerators: int, one: bool, priority: int) -> str:
        value = {
            "name": "job",
            "priority": priority,
            "tasks": [
                {
                    "count": count,
                    "command": ["train"],
                    "one_per_node": one,
                    "resources": {"accelerators": accelerators},
                }
            ],
        }
        checked = jobs.check_spec(value)
        try:
            name = str(self._call(lambda platform: jobs.submit(platform, WHO, checked)))
        except Problem:
            # Four nodes of two accelerators: only such gangs may be refused.
            assert (one and count > 4) or count * accelerators > 8
            return "refused"
        self.accepted.add(name)
        return name

    @rule(name=submitted, verb=st.sampled_from(sorted(jobs.USE_CASES)))
    def act(self, name: str, verb: str) -> None:
        try:
            self._call(lambda platform: jobs.USE_CASES[verb](platform, WHO, name))
        except (Conflict, NotFound):
            return

    @rule(node=st.sampled_from(NAMES), cordon=st.booleans())
    def cordon(self, node: str, cordon: bool) -> None:
        if cordon:
            self._call(lambda platform: nodes.cordon(platform, WHO, node, "by hand"))
        else:
            self._call(lambda platform: nodes.uncordon(platform, WHO, node))

    # -- nodes ---------------------------------------------------------------------------------------

    @precondition(lambda self: self.wire.commands)
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        """One command arrives, in any order between nodes."""
        index = data.draw(st.integers(0, len(self.wire.commands) - 1))
        command = self.wire.commands.pop(index)
        if command.node not in self.alive:
            return
        mine = self.running[command.node]
        if isinstance(command, StartTasks):
            mine -= {entry for entry in mine if entry[0] == command.job and entry[1] < command.attempt}
            new = {(command.job, command.attempt, task.rank) for task in command.tasks}
            if any(entry[0] == command.job and entry[1] > command.attempt for entry in mine):
                return
            mine |= new
            self._events(
                *(
                    TaskStarted(command.job, command.attempt, command.node, rank, self.now)
                    for _, _, rank in sorted(new)
                )
            )
        elif isinstance(command, EndTasks):
            mine -= {entry for entry in mine if entry[:2] == (command.job, command.attempt)}
            self._events(TasksEnded(command.job, command.attempt, command.node, self.now))

    @precondition(lambda self: any(self.running[name] for name in self.alive))
    @rule(data=st.data(), code=st.sampled_from([0, 0, 1, None]))
    def exit_rank(self, data: st.DataObject, code: int | None) -> None:
        node, entry = data.draw(
            st.sampled_from([(n, e) for n in sorted(self.alive) for e in sorted(self.running[n])])
        )
        self.running[node].discard(entry)
        job, attempt, rank = entry
        signal = 9 if code is None else None
        self._events(TaskExited(job, attempt, node, rank, self.now, code, signal, tail=("the end",)))

    @precondition(lambda self: any(self.running[name] for name in self.alive))
    @rule(data=st.data(), step=st.integers(0, 50))
    def report(self, data: st.DataObject, step: int) -> None:
        node, entry = data.draw(
            st.sampled_from([(n, e) for n in sorted(self.alive) for e in sorted(self.running[n])])
        )
        self._events(StepReported(entry[0], entry[1], node, entry[2], step, self.now, 1.0))

    @rule(node=st.sampled_from(NAMES))
    def lose(self, node: str) -> None:
        self.alive.discard(node)
        self.running[node].clear()

    @rule(node=st.sampled_from(NAMES))
    def come_back(self, node: str) -> None:
        self.alive.add(node)

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0, 30.0, 200.0]))
    def pass_time(self, seconds: float) -> None:
        for _ in range(10):
            self.now += seconds / 10
            self._beat(self.service)
            self.service.one_pass([])

    # -- crashes -------------------------------------------------------------------------------------

    @rule(lose_commands=st.booleans())
    def crash(self, lose_commands: bool) -> None:
        """kill -9 of the platform at a pass's boundary; commands under way may be lost with it."""
        self.service.store.close()
        if lose_commands:
            self.wire.commands.clear()
        self.service = self._start()

    @rule(count=st.integers(1, 3))
    def crash_before_the_commit(self, count: int) -> None:
        """kill -9 in the middle of a pass: what was not written did not happen."""
        before = {row["id"]: row["state"] for row in self.service.store.jobs(None, limit=1000)}
        checked = jobs.check_spec({"name": "lost", "tasks": [{"count": count, "command": ["x"]}]})
        jobs.submit(self.service.platform, WHO, checked)
        self.crash(False)
        after = {row["id"]: row["state"] for row in self.service.store.jobs(None, limit=1000)}
        assert before == after

    # -- what always holds -----------------------------------------------------------------------------

    @invariant()
    def books_are_right(self) -> None:
        """No accelerator twice, no gang half placed, incremental equals rebuild."""
        if not hasattr(self, "service"):
            return
        assert self.service.cycles.failures == 0
        world = self.service.platform.world
        assert world.same_books(world.rebuilt())
        assert world.claims or (world.pool.cpu_free >= 0).all()  # a claim may wait for cores
        for job in world.jobs.values():
            assert (job.placement is not None) == (job.state in HOLDING)
            assert (job.id in self.service.platform.attempts) == (job.state in HOLDING)
            if job.placement is not None:
                assert len(job.placement) == job.demand.count

    @invariant()
    def store_equals_memory(self) -> None:
        """What a restart would read is what is in memory."""
        if not hasattr(self, "service"):
            return
        platform = self.service.platform
        rows = {row["id"]: row for row in self.service.store.live_jobs()}
        assert {name: (row["state"], row["attempt"]) for name, row in rows.items()} == {
            name: (str(job.state), job.attempt) for name, job in platform.world.jobs.items()
        }
        stored = {item.job: item for item in self.service.store.live_attempts()}
        assert stored.keys() == platform.attempts.keys()
        for name, attempt in platform.attempts.items():
            assert stored[name].slots == attempt.slots
            assert stored[name].state == attempt.state

    @invariant()
    def claims_and_evictions_are_kept(self) -> None:
        """The store has each claim; no claimant evicts a job twice, and no chain of evictions closes."""
        if not hasattr(self, "service"):
            return
        world = self.service.platform.world
        stored = {row["job"]: tuple(row["victims"]) for row in self.service.store.claims()}
        assert stored == {name: claim.victims for name, claim in world.claims.items()}
        log = self.service.store.log(limit=100_000)
        pairs = [
            (entry["body"]["claimant"], entry["body"]["victim"])
            for entry in log
            if entry["kind"] == "eviction" and entry["body"]["claimant"] != entry["body"]["victim"]
        ]
        assert len(pairs) == len(set(pairs))
        assert not any(circle(edges(pairs), claimant) for claimant, _ in pairs)

    @invariant()
    def decisions_replay(self) -> None:
        """Run again from the journal, each cycle decides the same, bit for bit."""
        if not hasattr(self, "service") or self.service.store.snapshot() is None:
            return
        assert replaying.replay_decisions(self.service)["same"]

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        if not hasattr(self, "service"):
            return
        assert {row["id"] for row in self.service.store.jobs(None, limit=10_000)} == self.accepted

    @invariant()
    def the_log_replays(self) -> None:
        """The append-only log gives the same states and places."""
        if not hasattr(self, "service"):
            return
        states: dict[str, str] = {}
        places: dict[str, list[str]] = {}
        for entry in self.service.store.log(limit=100_000):
            name, body = entry["job"], entry["body"]
            if entry["kind"] == "submitted":
                states[name] = str(JobState.QUEUED)
            elif entry["kind"] == "placed":
                places[name] = [slot[1] for slot in body["slots"]]
            elif entry["kind"] == "state":
                assert states[name] == body["from"]
                states[name] = body["to"]
                if body["to"] in FINAL | WAITING:
                    places.pop(name, None)
        assert states == {row["id"]: row["state"] for row in self.service.store.jobs(None, limit=10_000)}
        assert places == {
            name: [slot.node for slot in attempt.slots]
            for name, attempt in self.service.platform.attempts.items()
        }


def edges(pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    """Who evicted whom."""
    graph: dict[str, list[str]] = {}
    for claimant, victim in pairs:
        graph.setdefault(claimant, []).append(victim)
    return graph


PlatformMachine.TestCase.settings = settings(
    max_examples=200 if SOAK else 15,
    stateful_step_count=60 if SOAK else 30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestPlatform = PlatformMachine.TestCase
