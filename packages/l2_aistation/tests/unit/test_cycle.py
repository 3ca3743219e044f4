"""Policies, the cycle and its explanations, as tables: the cluster before, the jobs, what starts."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from l2_aistation.core.actions import allocate
from l2_aistation.core.cycle import Session, run
from l2_aistation.core.demand import Demand, TaskDemand
from l2_aistation.core.explain import explain, impossible
from l2_aistation.core.pool import AcceleratorFacts, NodeFacts, Pool
from l2_aistation.core.states import JobState
from l2_aistation.core.world import Job, Queue, World

NOW = 1_000.0


def cluster(nodes: int = 4, accelerators: int = 8, cores: int = 64) -> Pool:
    cards = tuple(AcceleratorFacts(number, "nvidia", "H100") for number in range(accelerators))
    pool = Pool(NodeFacts(f"n{number}", cores, 0, cards, f"l{number // 2}") for number in range(nodes))
    pool.up[:] = True
    return pool


def job(name: str, count: int = 1, accelerators: int = 8, at: float = 0.0, **options: object) -> Job:
    group = TaskDemand("worker", count, 1000, 0, accelerators)
    values = {"tenant": "t", "queue": "default", "priority": 0, **options}
    return Job(id=name, submitted_at=at, demand=Demand((group,), count), **values)  # type: ignore[arg-type]


def world(jobs: list[Job], queues: list[Queue] | None = None, pool: Pool | None = None) -> World:
    made = World(pool or cluster(), {queue.name: queue for queue in queues or [Queue("default")]})
    for item in jobs:
        made.jobs[item.id] = item
    return made


def starts(made: World, now: float = NOW) -> list[str]:
    session = run(Session(made, now))
    return [entry.job.id for entry in session.statement.commit()]


@dataclass
class Case:
    """Jobs in, starts out."""

    name: str
    jobs: list[Job]
    expected: list[str]
    queues: list[Queue] = field(default_factory=lambda: [Queue("default")])
    nodes: int = 4


CASES = [
    Case("first come first", [job("b", at=2), job("a", at=1)], ["a", "b"]),
    Case("priority before age", [job("a", at=1), job("b", at=2, priority=5)], ["b", "a"]),
    Case(
        "volcano#3373: of two gangs that need everything one runs and the other holds nothing",
        [job("a", 4, at=1), job("b", 4, at=2)],
        ["a"],
    ),
    Case("what does not fit is passed by what does", [job("big", 5, at=1), job("small", at=2)], ["small"]),
    Case(
        "tenants share: the one with less goes first",
        [job("a1", at=1, tenant="a"), job("a2", at=2, tenant="a"), job("b1", at=3, tenant="b")],
        ["a1", "b1", "a2"],
    ),
    Case(
        "a queue below its guarantee goes before one that borrows",
        [job("x1", 2, at=1, queue="x"), job("x2", 2, at=2, queue="x"), job("y1", 2, at=3, queue="y")],
        ["x1", "y1"],
        [Queue("x", guarantee_accelerators=16), Queue("y", guarantee_accelerators=16)],
    ),
    Case(
        "a cap is never exceeded, others pass",
        [job("x1", at=1, queue="x"), job("x2", at=2, queue="x"), job("y1", at=3, queue="y")],
        ["x1", "y1"],
        [Queue("x", cap_accelerators=8), Queue("y")],
    ),
    Case(
        "borrowing goes by weight",
        [job(f"x{number}", at=number, queue="x") for number in range(4)]
        + [job(f"y{number}", at=9 + number, queue="y") for number in range(4)],
        ["x0", "y0", "y1", "y2"],
        [Queue("x", weight=1), Queue("y", weight=3)],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_who_starts(case: Case) -> None:
    made = world(case.jobs, case.queues, cluster(case.nodes))
    assert starts(made) == case.expected
    held = [item.placement for item in made.jobs.values() if item.placement is not None]
    assert made.pool.same_books(made.pool.rebuilt(held))


def test_a_steady_stream_of_small_jobs_does_not_starve_a_gang() -> None:
    """KAI#1969: the gang's start is bounded when it begins to wait; small jobs use the gap before it."""
    running = job("running", 1, at=0, time_s=1_000.0)
    made = world([running])
    assert starts(made, 0.0) == ["running"]
    running.state, running.started_at = JobState.RUNNING, 0.0
    made.jobs["gang"] = job("gang", 4, at=1)
    for number, limit in enumerate((500.0, 900.0, 1_200.0, None)):
        made.jobs[f"small{number}"] = job(f"small{number}", at=2.0 + number, time_s=limit, preemptible=False)
    assert starts(made, 100.0) == ["small0", "small1"]
    assert made.jobs["gang"].promised_at == 1_000.0
    for name in ("small0", "small1", "running"):
        made.give(made.jobs.pop(name))
    assert starts(made, 1_000.0) == ["gang"]


def test_a_cycle_that_fails_leaves_nothing_booked() -> None:
    made = world([job("a"), job("b")])
    before = made.pool.rebuilt([])

    def broken(_session: Session) -> None:
        raise RuntimeError("a policy's mistake")

    with pytest.raises(RuntimeError, match="mistake"):
        run(Session(made, NOW), (allocate, broken))
    assert made.pool.same_books(before)
    assert made.by_queue["default"].accelerators == 0


def test_a_checkpoint_undoes_only_what_came_after() -> None:
    made = world([job("a"), job("b")])
    session = Session(made, NOW)
    allocate(session)
    statement = session.statement
    mark = statement.checkpoint()
    statement.give(made.jobs["a"])
    assert made.jobs["a"].placement is None
    statement.rollback(mark)
    assert made.jobs["a"].placement is not None
    statement.rollback()
    assert made.jobs["b"].placement is None
    assert not statement.commit()


@pytest.mark.parametrize(
    ("wanted", "limit", "words"),
    [
        (job("w", 5), "nodes", None),
        (job("w", 1, 16), "node size", "a task needs 16 accelerators, the largest node has 8"),
        (job("w", 33, 1), "accelerators", "needs 33 accelerators, the pool has 32"),
        (job("w", 300, 0), "cpu cores", "needs 300 cpu cores, the pool has 256"),
    ],
)
def test_a_gang_larger_than_the_pool_is_told_so(wanted: Job, limit: str, words: str | None) -> None:
    if limit == "nodes":
        group = TaskDemand("worker", 5, 1000, 0, 0, None, one_per_node=True)
        wanted = Job("w", "t", "default", 0, 0.0, Demand((group,), 5))
        words = "needs 5 nodes, the pool has 4"
    refusal = impossible(world([]), wanted.demand)
    assert refusal is not None
    assert (refusal.limit, refusal.words(), refusal.forever) == (limit, words, True)


def test_an_impossible_level_is_told_so() -> None:
    group = TaskDemand("worker", 3, 1000, 0, 8)
    refusal = impossible(world([]), Demand((group,), 3, required="leaf"))
    assert refusal is not None
    assert refusal.words() == "under one leaf there is room for 2 of 3 tasks"


def test_why_a_job_waits_names_amounts_holders_and_time() -> None:
    long, short = job("long", 2, at=1, time_s=500.0), job("short", 1, at=2, time_s=100.0)
    waiting = job("waiting", 3, at=3)
    made = world([long, short, waiting])
    session = run(Session(made, NOW))
    for item in (long, short):
        item.state, item.started_at = JobState.RUNNING, NOW
    answer = explain(made, waiting, session.refusals["waiting"], NOW)
    assert answer.refusal is not None
    assert answer.refusal.words() == "needs 24 accelerators, free are 8"
    assert [(holder.job, holder.amount) for holder in answer.holders] == [("long", 16), ("short", 8)]
    assert answer.start_by == NOW + 500  # 8 free, 8 more after 100 s, enough after 500 s
    assert answer.position == 0


def test_fragments_are_told_apart_from_shortage() -> None:
    pieces = [job(f"p{number}", 1, 1, at=number) for number in range(1)]
    made = world([*pieces, job("whole", 4, at=9)])
    session = run(Session(made, NOW))
    refusal = session.refusals["whole"]
    assert refusal.limit == "accelerators"
    made = world([job("p", 1, 7, at=0), job("q", 1, 7, at=1), job("w", 3, 8, at=2)], pool=cluster(4))
    session = run(Session(made, NOW))
    assert made.jobs["p"].placement is not None
    assert "w" in session.refusals or made.jobs["w"].placement is not None


def test_a_capped_job_names_its_queue_and_who_holds_it() -> None:
    made = world(
        [job("x1", at=1, queue="x"), job("x2", at=2, queue="x"), job("y1", at=3, queue="y")],
        [Queue("x", cap_accelerators=8), Queue("y")],
    )
    session = run(Session(made, NOW))
    made.jobs["x1"].state = JobState.RUNNING
    answer = explain(made, made.jobs["x2"], session.refusals["x2"], NOW)
    assert answer.refusal is not None
    assert answer.refusal.words() == "queue x has room for 0 accelerators under its cap, the job needs 8"
    assert [holder.job for holder in answer.holders] == ["x1"]


def test_no_node_is_ready_is_said_as_such() -> None:
    made = world([job("a")])
    made.pool.up[:] = False
    session = run(Session(made, NOW))
    assert session.refusals["a"].words() == "no node is ready: 4 down, 0 cordoned, 0 spare"
    assert impossible(made, made.jobs["a"].demand) is None
