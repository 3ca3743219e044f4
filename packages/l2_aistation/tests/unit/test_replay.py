"""The journal: decisions are run again from it and come out the same, bit for bit."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from l2_aistation.core.cycle import Session, run
from l2_aistation.core.demand import Demand, TaskDemand
from l2_aistation.core.journal import tell
from l2_aistation.core.policy import default_policies
from l2_aistation.core.pool import AcceleratorFacts, NodeFacts, Pool
from l2_aistation.core.replay import Recorder, replay, restore, snapshot
from l2_aistation.core.statement import Booking, Eviction
from l2_aistation.core.states import JobState
from l2_aistation.core.windows import Window
from l2_aistation.core.world import Job, Queue, World

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "finish", "lose", "return", "quota", "window", "tick", "priority"]),
        st.integers(0, 7),
        st.integers(1, 6),
        st.sampled_from([1, 2, 4]),
        st.sampled_from([None, 60.0, 400.0]),
    ),
    min_size=1,
    max_size=25,
)


def small_world() -> World:
    cards = tuple(AcceleratorFacts(number, "nvidia", "H100") for number in range(4))
    pool = Pool(NodeFacts(f"n{number}", 16, 0, cards, f"l{number // 2}") for number in range(4))
    pool.up[:] = True
    world = World(pool)
    world.put_queue(Queue("a", guarantee_accelerators=4))
    world.put_queue(Queue("b", cap_accelerators=12))
    return world


@dataclass
class Play:
    """A world that lives, with a recorder beside it."""

    world: World = field(default_factory=small_world)
    entries: list[dict[str, Any]] = field(default_factory=list)
    now: float = 1_000.0
    count: int = 0

    def __post_init__(self) -> None:
        self.first = json.loads(json.dumps(snapshot(self.world)))
        self.recorder = Recorder(self.world)

    def step(self, kind: str, which: int, tasks: int, each: int, limit: float | None) -> None:
        world = self.world
        node = world.pool.facts[which % len(world.pool)].id
        if kind == "submit":
            self.count += 1
            demand = Demand((TaskDemand("worker", tasks, 1000, 0, each),), tasks)
            queue = "ab"[which % 2]
            name = f"j{self.count}"
            world.jobs[name] = Job(
                name, "t", queue, which % 3, self.now, demand, time_s=limit, preemptible=which % 4 != 0
            )
        elif kind == "finish" and world.holding:
            self.end(list(world.holding.values())[which % len(world.holding)])
        elif kind in ("lose", "return"):
            world.pool.set_up(node, value=kind == "return")
        elif kind == "quota":
            world.put_queue(Queue("b", cap_accelerators=2 * which, guarantee_accelerators=which % 3))
        elif kind == "window":
            world.windows["w"] = Window("w", "maintenance", self.now + 50, self.now + 200, (node,))
        elif kind == "priority" and len(world.waiting):
            next(iter(world.waiting)).priority += 1
        self.cycle()
        self.now += 40.0 * which

    def end(self, job: Job) -> None:
        self.world.run_times.learn(job, self.now - (job.started_at or self.now))
        self.world.give(job)
        job.state = JobState.COMPLETED
        self.world.forget(job.id)

    def cycle(self) -> None:
        told = self.recorder.begin()
        session = run(Session(self.world, self.now))
        decided = session.statement.commit()
        self.entries.append(json.loads(json.dumps(self.recorder.end(told, session, decided))))
        for entry in decided:
            if isinstance(entry, Booking) and entry.taken:
                entry.job.state, entry.job.started_at = JobState.RUNNING, self.now
            elif isinstance(entry, Eviction):
                self.world.give(entry.job)
                entry.job.ran_s += self.now - (entry.job.started_at or self.now)
                entry.job.started_at, entry.job.state = None, JobState.QUEUED


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_a_journal_gives_the_same_decisions_and_the_same_world(steps: list[Any]) -> None:
    play = Play()
    for step in steps:
        play.step(*step)
    again = restore(play.first)
    assert replay(again, play.entries, default_policies()) == []
    told = json.loads(json.dumps(play.recorder.begin()))
    tell(again, told)
    assert again.same_books(play.world)
    assert again.ledger.same_as(play.world.holders())
    assert again.waiting.same_as(play.world.pending())


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_a_snapshot_is_the_world(steps: list[Any]) -> None:
    play = Play()
    for step in steps:
        play.step(*step)
    record = json.loads(json.dumps(snapshot(play.world)))
    again = restore(record)
    assert json.loads(json.dumps(snapshot(again))) == record
    assert again.same_books(play.world)
    assert again.ledger.same_as(play.world.holders())
    assert again.waiting.same_as(play.world.pending())


def test_a_changed_decision_is_found() -> None:
    play = Play()
    play.step("submit", 0, 2, 4, None)
    play.step("submit", 1, 2, 4, None)
    assert replay(restore(play.first), play.entries, default_policies()) == []
    play.entries[0]["told"]["jobs"][0]["demand"]["groups"][0]["count"] = 3
    differences = replay(restore(play.first), play.entries, default_policies())
    assert [difference.number for difference in differences] == [0]
