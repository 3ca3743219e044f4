"""The live board: whoever applies what it sends sees what is there, however many ticks were missed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from l2_aistation.core.demand import Demand, TaskDemand
from l2_aistation.core.job import Job
from l2_aistation.core.pool import AcceleratorFacts, NodeFacts, Placement, Pool
from l2_aistation.core.states import JobState
from l2_aistation.core.world import Queue, World
from l2_aistation.service.live import FREE, OTHER, Board, collect

CARDS = tuple(AcceleratorFacts(number, "nvidia", "H100", 80 << 30) for number in range(4))
DEMAND = Demand((TaskDemand("w", 1, 1000, 0, 1, None, False),), least=1)


def pool() -> Pool:
    made = Pool(NodeFacts(f"n{number}", 16, 1 << 36, CARDS, f"leaf{number // 2}") for number in range(5))
    made.up[:] = True
    return made


class Site:
    """A world, its board, and a client of each scope that applies what it is sent."""

    def __init__(self) -> None:
        self.world = World(pool(), {"q": Queue("q")})
        self.cordons: dict[str, str] = {}
        self.board = Board("life")
        self.clients = {scope: Client() for scope in (None, "red", "blue")}
        self.number = 0

    def look(self) -> None:
        facts = SimpleNamespace(name="c")
        platform = SimpleNamespace(world=self.world, facts=facts, cordons=self.cordons)
        self.board.advance(collect(cast("Any", platform), 0.0))

    def start(self, tenant: str, node: int, wanted: int) -> None:
        free = [place for place in range(4) if int(self.world.pool.free_bits[node]) >> place & 1][:wanted]
        if not free:
            return
        self.number += 1
        job = Job(f"j{self.number}", tenant, "q", 0, 0.0, DEMAND, owner="ann")
        self.world.jobs[job.id] = job
        bits = sum(1 << place for place in free)
        arrays = (np.array([value], dtype=np.int64) for value in (0, 1000, 0))
        groups, cpu, memory = arrays
        nodes = np.array([node], dtype=np.int64)
        self.world.take(job, Placement(nodes, np.array([bits], dtype=np.uint64), groups, cpu, memory))
        job.state = JobState.RUNNING

    def end(self, which: int) -> None:
        holders = [job for job in self.world.jobs.values() if job.placement is not None]
        if holders:
            job = holders[which % len(holders)]
            self.world.give(job)
            job.state = JobState.COMPLETED
            self.world.jobs.pop(job.id, None)


class Client:
    """What a page keeps: rows and jobs, by what it was sent."""

    def __init__(self) -> None:
        self.version = ""
        self.rows: dict[int, list[Any]] = {}
        self.jobs: dict[int, list[str]] = {}

    def take(self, frame: dict[str, Any]) -> None:
        if frame.get("reset"):
            self.rows, self.jobs = {}, {}
        self.version = frame["v"]
        self.rows |= {row[0]: row for row in frame["nodes"]}
        self.jobs |= frame["jobs"]

    def shown(self) -> dict[int, Any]:
        """Every node as the page draws it, with names for codes."""
        return {
            number: [row[1], row[2], [self.jobs[code] if code > OTHER else code for code in row[3]]]
            for number, row in self.rows.items()
        }


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.sampled_from(["red", "blue"]), st.integers(0, 4), st.integers(1, 4)),
        st.tuples(st.just("end"), st.integers(0, 9)),
        st.tuples(st.just("state"), st.integers(0, 9)),
        st.tuples(st.just("cordon"), st.integers(0, 4), st.booleans()),
        st.tuples(st.just("up"), st.integers(0, 4), st.booleans()),
        st.tuples(st.just("pool")),
        st.tuples(st.just("look")),
        st.tuples(st.just("read"), st.sampled_from([None, "red", "blue"])),
    ),
    max_size=40,
)


def act(site: Site, step: tuple[Any, ...]) -> None:
    kind, *rest = step
    world = site.world
    if kind == "start":
        site.start(*rest)
    elif kind == "end":
        site.end(*rest)
    elif kind == "state":
        holders = [job for job in world.jobs.values() if job.placement is not None]
        if holders:
            holders[rest[0] % len(holders)].state = JobState.HELD
    elif kind == "cordon":
        world.pool.set_cordoned(f"n{rest[0]}", value=rest[1])
    elif kind == "up":
        world.pool.set_up(f"n{rest[0]}", value=rest[1])
    elif kind == "pool":
        site.world = World(pool(), dict(world.queues))
    elif kind == "look":
        site.look()
    else:
        site.look()
        client = site.clients[rest[0]]
        client.take(site.board.frame(rest[0], client.version))


@settings(deadline=None, max_examples=50)
@given(STEPS)
def test_what_was_sent_adds_up_to_what_is_there(steps: list[tuple[Any, ...]]) -> None:
    site = Site()
    for step in steps:
        act(site, step)
    site.look()
    for scope, client in site.clients.items():
        client.take(site.board.frame(scope, client.version))
        fresh = Client()
        fresh.take(site.board.frame(scope, ""))
        assert client.shown() == fresh.shown()
        held = {
            (int(node), place)
            for job in site.world.jobs.values()
            if job.placement is not None
            for node, bits in zip(job.placement.nodes, job.placement.bits.tolist(), strict=True)
            for place in range(4)
            if bits >> place & 1
        }
        drawn = {
            (number, place)
            for number, (_, _, codes) in fresh.shown().items()
            for place, code in enumerate(codes)
            if code != FREE
        }
        assert drawn == held


@settings(deadline=None, max_examples=30)
@given(STEPS)
def test_a_tenant_is_sent_no_name_of_another_s(steps: list[tuple[Any, ...]]) -> None:
    site = Site()
    for step in steps:
        act(site, step)
        site.look()
        frame = site.board.frame("red", "")
        theirs = {job.id for job in site.world.jobs.values() if job.tenant != "red"}
        assert not theirs & {job[0] for job in frame["jobs"].values()}


def test_nothing_is_sent_again_and_a_stranger_gets_all() -> None:
    site = Site()
    site.start("red", 0, 2)
    site.look()
    first = site.board.frame(None, "")
    assert first["reset"]
    assert len(first["nodes"]) == 5
    again = site.board.frame(None, first["v"])
    assert (again["nodes"], again["jobs"], again.get("reset")) == ([], {}, None)
    assert site.board.frame(None, "another.7")["reset"]
    site.start("blue", 3, 1)
    site.look()
    assert [row[0] for row in site.board.frame(None, first["v"])["nodes"]] == [3]


def test_many_watchers_cost_one() -> None:
    site = Site()
    site.look()
    version = site.board.frame(None, "")["v"]
    assert site.board.frame(None, version) is site.board.frame(None, version)


def test_a_rank_without_accelerators_is_on_its_node() -> None:
    site = Site()
    job = Job("cpu", "red", "q", 0, 0.0, DEMAND, owner="ann")
    site.world.jobs[job.id] = job
    numbers = [np.array([value, value], dtype=np.int64) for value in (2, 0, 1000, 0)]
    site.world.take(job, Placement(numbers[0], np.zeros(2, dtype=np.uint64), *numbers[1:]))
    site.look()
    frame = site.board.frame(None, "")
    row = frame["nodes"][2]
    ((place, (code,)),) = row[4]
    assert (place, row[3], frame["jobs"][code][0], frame["held"]) == (-1, [FREE] * 4, "cpu", 0)
    assert site.board.frame("blue", "")["nodes"][2][4] == [(-1, [OTHER])]
    site.world.give(job)
    del site.world.jobs[job.id]
    site.look()
    assert len(site.board.frame(None, "")["nodes"][2]) == 4
