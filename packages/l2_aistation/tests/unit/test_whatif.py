"""What if: the answer comes from a copy, and the world stays as it is."""

from __future__ import annotations

import json

import pytest
from l2_aistation._kit.problems import BadInput, NotFound
from l2_aistation.core.cycle import Session, run
from l2_aistation.core.demand import Demand, TaskDemand
from l2_aistation.core.explain import explain
from l2_aistation.core.policy import default_policies
from l2_aistation.core.pool import AcceleratorFacts, NodeFacts, Pool
from l2_aistation.core.replay import snapshot
from l2_aistation.core.states import JobState
from l2_aistation.core.whatif import Answer, Change, ask
from l2_aistation.core.world import Job, Queue, World

NOW = 1_000.0


def job(
    name: str, count: int, each: int = 8, *, queue: str = "q", time_s: float | None = None, **more: int
) -> Job:
    demand = Demand((TaskDemand("worker", count, 1000, 0, each),), count)
    return Job(name, "t", queue, more.get("priority", 0), more.get("at", 0), demand, time_s=time_s)


@pytest.fixture
def world() -> World:
    """Four nodes of eight; one job holds two of them until 1,600, a capped queue holds one."""
    cards = tuple(AcceleratorFacts(number, "nvidia", "H100") for number in range(8))
    pool = Pool(NodeFacts(f"n{number}", 64, 0, cards, f"l{number // 2}") for number in range(4))
    pool.up[:] = True
    made = World(pool)
    made.put_queue(Queue("q"))
    made.put_queue(Queue("small", cap_accelerators=8))
    for item in (job("long", 2, time_s=600.0), job("mine", 1, queue="small", time_s=100.0)):
        made.jobs[item.id] = item
    for entry in run(Session(made, NOW)).statement.commit():
        entry.job.state, entry.job.started_at = JobState.RUNNING, NOW
    made.jobs["big"] = job("big", 3, at=1)
    made.jobs["capped"] = job("capped", 1, queue="small", at=2)
    run(Session(made, NOW + 1)).statement.commit()
    return made


def what(world: World, name: str, **change: object) -> Answer:
    before = json.dumps(snapshot(world))
    answer = ask(world, default_policies(), NOW + 2, Change(**change), name)  # type: ignore[arg-type]
    assert json.dumps(snapshot(world)) == before
    assert world.waiting.same_as(world.pending())
    return answer


def test_as_things_are_the_promise_is_the_answer(world: World) -> None:
    answer = what(world, "big")
    assert (answer.starts, answer.at) == ("at", 1_600.0)
    assert answer.words == "needs 24 accelerators, free are 8"
    assert world.jobs["big"].promised_at == 1_600.0


@pytest.mark.parametrize(
    "change",
    [{"nodes": 2}, {"without": ("long",)}, {"count": 1}, {"accelerators": 2}],
)
def test_what_would_let_it_start(world: World, change: dict[str, object]) -> None:
    answer = what(world, "big", **change)
    assert answer.starts == "now"
    assert answer.placement is not None
    assert answer.victims == ()


def test_a_higher_priority_names_its_victims(world: World) -> None:
    answer = what(world, "big", priority=5)
    assert (answer.starts, answer.victims) == ("now", (("long", "t"),))


def test_a_raised_cap_lets_the_capped_job_start(world: World) -> None:
    assert what(world, "capped").starts == "at"
    assert what(world, "capped").at == 1_100.0
    assert what(world, "capped", caps={"small": 16}).starts == "now"


def test_more_than_there_is_never_starts(world: World) -> None:
    answer = what(world, "big", count=9)
    assert answer.starts == "never"
    assert answer.words == "needs 72 accelerators, the pool has 32"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"nodes": -1}, "nodes"),
        ({"count": 0}, "count"),
        ({"queue": "nope"}, "queue"),
        ({"caps": {"small": -1}}, "caps"),
        ({"without": ("nobody",)}, "without"),
    ],
)
def test_what_makes_no_sense_is_said(world: World, change: dict[str, object], field: str) -> None:
    with pytest.raises(BadInput) as problem:
        what(world, "big", **change)
    assert problem.value.field == field


def test_only_who_waits_can_be_asked_about(world: World) -> None:
    with pytest.raises(BadInput, match="running"):
        what(world, "long")
    with pytest.raises(NotFound):
        what(world, "nobody")


def test_why_it_waits_comes_with_the_time(world: World) -> None:
    answer = explain(world, world.jobs["big"], world.waiting.refusal("big"), NOW + 2)
    assert answer.refusal is not None
    assert answer.refusal.words() == "needs 24 accelerators, free are 8"
    assert [holder.job for holder in answer.holders] == ["long", "mine"]
    assert (answer.promised_at, answer.estimated_at) == (1_600.0, 1_600.0)
    capped = explain(world, world.jobs["capped"], world.waiting.refusal("capped"), NOW + 2)
    assert [holder.job for holder in capped.holders] == ["mine"]
    assert capped.estimated_at == 1_100.0
