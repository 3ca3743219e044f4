"""The future of the pool: a promised start is never later, and the earliest start is the earliest one."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from l2_aistation.core.bounds import next_wake
from l2_aistation.core.demand import Demand, TaskDemand
from l2_aistation.core.estimates import RunTimes
from l2_aistation.core.placement import place
from l2_aistation.core.pool import AcceleratorFacts, NodeFacts, Pool
from l2_aistation.core.rehearsal import Rehearsal
from l2_aistation.core.states import JobState
from l2_aistation.core.timeline import Timeline, Wish
from l2_aistation.core.windows import Window
from l2_aistation.core.world import Job, Queue, World

NODES, CARDS = 5, 4


def empty() -> World:
    cards = tuple(AcceleratorFacts(number, "nvidia", "H100") for number in range(CARDS))
    pool = Pool(NodeFacts(f"n{number}", 16, 0, cards, f"l{number // 2}") for number in range(NODES))
    pool.up[:] = True
    world = World(pool)
    world.put_queue(Queue("q"))
    return world


def job(key: str, tasks: int, each: int, time_s: float | None, **more: object) -> Job:
    demand = Demand((TaskDemand("worker", tasks, 1000, 0, each),), tasks)
    values: dict[str, object] = {"preemptible": False, **more}
    return Job(key, "t", "q", 0, 0.0, demand, time_s=time_s, **values)  # type: ignore[arg-type]


SMALL = st.tuples(
    st.integers(0, 400),
    st.integers(1, 2),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 300),
    st.integers(1, 100),
)
"""When it comes, tasks, accelerators of each, its limit, and how much of that it runs, percent."""


CROWD = [
    (32, 2, 4, 137, 80), (170, 1, 2, 168, 2), (47, 2, 4, 152, 32), (0, 2, 4, 183, 68), (212, 2, 1, 50, 50),
    (0, 2, 1, 296, 87), (50, 1, 2, 223, 4), (29, 1, 1, 265, 38), (155, 1, 1, 32, 90), (5, 1, 2, 165, 18),
    (3, 1, 4, 264, 28), (0, 2, 1, 297, 53), (53, 2, 1, 229, 16), (0, 1, 1, 286, 48), (0, 2, 4, 145, 36),
    (23, 2, 1, 270, 74), (0, 2, 4, 2, 64), (31, 2, 1, 282, 58), (26, 2, 2, 229, 50), (0, 1, 2, 113, 14),
    (5, 1, 2, 157, 71), (0, 2, 1, 85, 74), (27, 1, 1, 179, 31),
]  # fmt: skip
"""Like jobs of which some have a promise: what one of them could not have, another could."""


@dataclass
class Stream:
    """Jobs that come and end in virtual time, a cycle after each moment."""

    arrivals: list[tuple[float, Job, float]]
    play: Rehearsal = field(default_factory=lambda: Rehearsal(empty()))
    started: dict[str, float] = field(default_factory=dict)
    promised: dict[str, float] = field(default_factory=dict)

    def run(self) -> None:
        runs = {item.id: seconds for _, item, seconds in self.arrivals}
        events = [(at, 1, item.id) for at, item, _ in self.arrivals]
        jobs = {item.id: item for _, item, _ in self.arrivals}
        heapq.heapify(events)
        world = self.play.world
        while events:
            wake = next_wake(world, self.play.now)
            self.play.now = events[0][0] if wake is None else min(events[0][0], wake)
            self.play.stop()
            while events and events[0][0] <= self.play.now:
                _, kind, name = heapq.heappop(events)
                if kind:
                    self.play.submit(jobs[name])
                elif name in world.jobs:
                    self.play.end(name)
            outcome = self.play.cycle()
            assert not outcome.evicted
            for name in outcome.started:
                self.started[name] = self.play.now
                heapq.heappush(events, (self.play.now + runs[name], 0, name))
            for name, promise in world.promises.items():
                self.promised.setdefault(name, promise.at)


@settings(max_examples=60, deadline=None)
@example(CROWD, 3, 53)
@given(st.lists(SMALL, max_size=25), st.integers(2, NODES), st.integers(0, 200))
def test_no_promised_start_is_delayed_by_jobs_that_keep_their_limits(
    small: list[tuple[int, int, int, int, int]], size: int, at: int
) -> None:
    """KAI#1969, kueue#534, volcano#748."""
    arrivals = [
        (float(when), job(f"s{number}", tasks, each, float(limit)), limit * share / 100)
        for number, (when, tasks, each, limit, share) in enumerate(small)
    ]
    arrivals.append((float(at), job("gang", size, CARDS, 500.0), 500.0))
    stream = Stream(arrivals)
    stream.run()
    assert set(stream.started) == {item.id for _, item, _ in arrivals}
    for name, promised in stream.promised.items():
        assert stream.started[name] <= promised, name


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 4]), st.integers(1, 9)), max_size=8),
    st.integers(1, 5),
    st.sampled_from([1, 2, 4]),
    st.one_of(st.none(), st.tuples(st.integers(0, 6), st.integers(1, 5))),
)
def test_the_earliest_start_is_the_first_that_brute_force_finds(
    running: list[tuple[int, int, int]], tasks: int, each: int, window: tuple[int, int] | None
) -> None:
    world = empty()
    held: list[tuple[float, Job]] = []
    for number, (count, cards, ends) in enumerate(running):
        item = job(f"r{number}", count, cards, float(ends))
        found = place(world.pool, item.demand)
        if found is None:
            continue
        world.jobs[item.id] = item
        world.take(item, found)
        item.state, item.started_at = JobState.RUNNING, 0.0
        held.append((float(ends), item))
    if window is not None:
        opens, lasts = window
        world.windows["w"] = Window("w", "maintenance", float(opens), float(opens + lasts), ("n0", "n1"))
    wish = job("w", tasks, each, 2.0)
    start = Timeline(world, 0.0).earliest(Wish(wish, wish.demand, 2.0))
    expected = None
    for moment in [number / 2 for number in range(30)]:
        left = [item.placement for end, item in held if end > moment and item.placement is not None]
        pool = world.pool.rebuilt(left)
        usable = pool.usable
        for other in world.windows.values():
            if other.overlaps(moment, moment + 2.0):
                usable = usable.copy()
                usable[[pool.index[node] for node in other.nodes]] = False
        if place(pool, wish.demand, usable) is not None:
            expected = moment
            break
    assert (None if start is None else start.at) == expected


def test_whoever_must_not_leave_and_has_no_limit_keeps_the_promise_open() -> None:
    play = Rehearsal(empty())
    play.submit(job("forever", 1, 4, None))
    play.cycle()
    play.now = 5.0
    play.submit(job("gang", NODES, 4, 100.0))
    play.cycle()
    assert play.world.jobs["gang"].promised_at is None
    play.end("forever")
    assert play.cycle().started == ("gang",)


class TestRunTimes:
    """Learned run times."""

    def test_too_few_ended_jobs_teach_nothing(self) -> None:
        times = RunTimes()
        for _ in range(5):
            times.learn(job("a", 1, 1, None), 60.0)
        assert times.quantile(job("b", 1, 1, None), 0.5) is None
        assert times.expected(job("b", 1, 1, None, expected_s=7.0), 0.5) == 7.0
        assert times.expected(job("b", 1, 1, 9.0), 0.5) == 9.0

    def test_the_quantile_lies_within_a_bin_of_the_truth(self) -> None:
        times = RunTimes()
        for seconds in range(1, 1001):
            times.learn(job("a", 1, 1, None), float(seconds))
        for share in (0.1, 0.5, 0.9):
            found = times.quantile(job("b", 1, 1, None), share)
            assert found is not None
            assert 1000 * share <= found <= 1000 * share * 2**0.25 * 1.01

    def test_who_has_run_long_is_expected_to_run_longer(self) -> None:
        times = RunTimes()
        for number in range(400):
            times.learn(job("a", 1, 1, None), 60.0 if number % 4 else 6000.0)
        fresh = times.quantile(job("b", 1, 1, None), 0.5)
        late = times.quantile(job("b", 1, 1, None), 0.5, ran_s=100.0)
        assert fresh is not None
        assert late is not None
        assert fresh < 100 < 6000 <= late

    def test_the_narrowest_class_that_knows_enough_answers(self) -> None:
        times = RunTimes()
        for number in range(40):
            times.learn(job(f"train-{number}", 1, 1, None, name=f"train-{number}", owner="ann"), 5000.0)
            times.learn(job(f"try-{number}", 1, 1, None, name=f"try-{number}", owner="ann"), 10.0)
        train = times.quantile(job("x", 1, 1, None, name="train-99", owner="ann"), 0.5)
        attempt = times.quantile(job("x", 1, 1, None, name="try-7", owner="ann"), 0.5)
        assert train == pytest.approx(5000, rel=0.2)
        assert attempt == pytest.approx(10, rel=0.2)

    def test_a_record_keeps_what_was_learned(self) -> None:
        times = RunTimes()
        for seconds in range(1, 60):
            times.learn(job("a", 1, 2, None, owner="bob"), float(seconds))
        again = RunTimes.from_record(times.as_record())
        wanted = job("b", 1, 2, None, owner="bob")
        assert again.quantile(wanted, 0.7) == times.quantile(wanted, 0.7)
