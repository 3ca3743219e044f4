"""The simulator against traces computed by hand, queueing theory, and laws of conservation."""

from __future__ import annotations

import heapq
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l2_aistation._kit.problems import BadInput
from l2_aistation.core.world import World
from l2_aistation.simulator import (
    Costs,
    QuotaChange,
    Result,
    Trace,
    TraceJob,
    cluster,
    read_trace,
    scheme,
    simulate,
)
from l2_aistation.simulator.jobs import demand_of
from l2_aistation.simulator.policies.easy import Easy
from l2_aistation.simulator.results import jain

TRACES = Path(__file__).parent / "traces"
SCHEMES = ("fifo", "easy", "sjf", "tiresias", "ours")
EXAMPLES = 300 if os.environ.get("OGAI_SOAK") else 40


def trace(*jobs: tuple[float, float, int]) -> Trace:
    """(submit, duration, accelerators) as jobs a, b, c …"""
    return Trace("t", [TraceJob(chr(97 + number), *job) for number, job in enumerate(jobs)])


def spans(result: Result) -> list[float]:
    assert result.unfinished == 0
    return [float(value) for value in result.jct_s]


@pytest.mark.parametrize(
    ("policy", "shape", "jobs", "expected"),
    [
        # b needs both accelerators and waits for a; c would fit beside a, but nobody passes b.
        ("fifo", "1x2", [(0, 10, 1), (1, 5, 2), (2, 3, 1)], [10, 14, 16]),
        # c ends before b can start, so it goes first.
        ("easy", "1x2", [(0, 10, 1), (1, 5, 2), (2, 3, 1)], [10, 14, 3]),
        # c would end at 12, b's start is 10: c waits.
        ("easy", "1x2", [(0, 10, 1), (1, 5, 2), (2, 10, 1)], [10, 14, 23]),
        # b will leave one of three accelerators alone: c may keep it as long as it wants.
        ("easy", "1x3", [(0, 10, 2), (1, 5, 2), (2, 20, 1)], [10, 14, 20]),
        # …but not both c and d.
        ("easy", "1x4", [(0, 10, 2), (1, 5, 3), (2, 20, 1), (3, 20, 1)], [10, 14, 20, 32]),
        ("sjf", "1x1", [(0, 10, 1), (1, 5, 1), (2, 3, 1)], [10, 17, 11]),
        # the shortest does not fit, the next one does.
        ("sjf", "1x2", [(0, 10, 1), (1, 1, 2), (2, 3, 1)], [10, 10, 3]),
        # 12 accelerators are 3 tasks of 4: two nodes; the rest of the second holds b.
        ("fifo", "2x8", [(0, 10, 12), (0, 10, 4), (0, 10, 1)], [10, 10, 20]),
    ],
)
def test_small_traces_by_hand(
    policy: str, shape: str, jobs: list[tuple[float, float, int]], expected: list[float]
) -> None:
    assert spans(simulate(trace(*jobs), cluster(shape), scheme(policy))) == expected


@pytest.mark.parametrize(
    ("checkpoint_s", "lost", "expected"),
    [
        # a has had an accelerator-hour at 3600 and makes room for b until 3650, all its work saved.
        (1800, 60, [3650 + 60 + 4400, 3550]),
        # 600 seconds since the last checkpoint are done twice.
        (1000, 660, [3650 + 60 + 5000, 3550]),
    ],
)
def test_tiresias_by_hand(checkpoint_s: float, lost: float, expected: list[float]) -> None:
    costs = Costs(checkpoint_s=checkpoint_s, restart_s=60)
    result = simulate(trace((0, 8000, 1), (100, 50, 1)), cluster("1x1"), scheme("tiresias"), costs)
    assert spans(result) == expected
    assert (result.evictions, result.lost_s) == (1, lost)


def test_metrics_by_hand() -> None:
    # On 2 accelerators: a holds one until 10, b both until 15, c waits until then and holds one for 3 s.
    result = simulate(trace((0, 10, 1), (1, 5, 2), (2, 3, 1)), cluster("1x2"), scheme("fifo"))
    assert result.makespan_s == 18
    assert result.utilisation == pytest.approx((10 + 10 + 3) / 36)
    # Somebody waits from 1 to 15: 9 s with one held, 5 s with both.
    assert result.allocated_share == pytest.approx((9 + 10) / 28)
    # Free: 10 s of one beside a, 3 s of one beside c, both on a node that is partly taken.
    assert result.fragmentation == 1.0
    assert [float(value) for value in result.wait_s] == [0, 9, 13]
    assert jain(np.array([1.0, 1.0, 1.0])) == 1.0
    assert jain(np.array([1.0, 0.0, 0.0, 0.0])) == 0.25


def test_ring_edges_between_switches() -> None:
    # 4 nodes of one accelerator under two leaves: a ring over all has 4 edges, 2 of them between leaves.
    jobs = Trace("t", [TraceJob("a", 0, 10, 4)])
    result = simulate(jobs, cluster("4x1/leaf2"), scheme("fifo"))
    assert (result.cross_leaf, result.cross_spine, result.excess_leaves) == (0.5, 0.0, 0)
    inside = simulate(Trace("t", [TraceJob("a", 0, 10, 2)]), cluster("4x1/leaf2"), scheme("ours"))
    assert (inside.cross_leaf, inside.gangs) == (0.0, 1)


def test_fifo_is_the_queue_with_many_servers() -> None:
    """Jobs of one accelerator under FIFO: each starts when it and the earliest server are there."""
    ones = [job for job in read_trace(TRACES / "philly_sample.csv.gz").jobs if job.accelerators == 1]
    result = simulate(Trace("t", ones), cluster("5x8"), scheme("fifo"))
    servers = [0.0] * 40
    expected = []
    for job in ones:
        start = max(job.submit_s, servers[0])
        heapq.heapreplace(servers, start + job.duration_s)
        expected.append(start + job.duration_s - job.submit_s)
    assert spans(result) == expected
    assert result.wait_s.max() > 3600  # the queue was long at times


def test_sample_of_philly_has_the_known_order_of_policies() -> None:
    sample = read_trace(TRACES / "philly_sample.csv.gz")
    found = {name: simulate(sample, cluster("16x8"), scheme(name)) for name in ("fifo", "easy", "sjf")}
    means = [found[name].jct_s.mean() for name in ("sjf", "easy", "fifo")]
    assert means == sorted(means)
    assert means[0] < means[2] / 2
    work = sum(job.accelerators * job.duration_s for job in sample.jobs)
    for result in found.values():
        assert result.utilisation * 128 * result.makespan_s == pytest.approx(work)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    count = draw(st.integers(1, 25))
    jobs = []
    at = 0
    for number in range(count):
        at += draw(st.integers(0, 2000))
        jobs.append(
            TraceJob(
                f"j{number}",
                float(at),
                float(draw(st.integers(1, 9000))),
                draw(st.sampled_from([1, 1, 1, 2, 3, 4, 6, 8, 12])),
                queue=draw(st.sampled_from(["x", "y"])),
            )
        )
    return Trace("t", jobs)


@pytest.mark.parametrize("policy", SCHEMES)
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    jobs=traces(),
    shape=st.sampled_from(["1x4", "2x4", "3x4/leaf1", "2x8"]),
    stop_s=st.sampled_from([0.0, 30.0]),
)
def test_conservation(policy: str, jobs: Trace, shape: str, stop_s: float) -> None:
    result = simulate(jobs, cluster(shape), scheme(policy), Costs(600.0, 30.0, stop_s))
    assert result.unfinished == 0
    assert len(result.jct_s) + result.rejected == len(jobs.jobs)
    assert (result.wait_s >= -1e-6).all()
    biggest = result.accelerators
    ran = [job for job in jobs.jobs if demand_of(job, 8 if "x8" in shape else 4).accelerators <= biggest]
    held = result.utilisation * result.accelerators * result.makespan_s
    kept = result.useful_share * result.accelerators * result.makespan_s
    assert held == pytest.approx(kept + result.lost_s, abs=1e-3)
    if not result.rejected:
        assert kept == pytest.approx(sum(job.accelerators * job.duration_s for job in ran), abs=1e-3)
    assert result.series["held"].max() <= result.accelerators + 1e-6
    assert 0 <= result.allocated_share <= 1 + 1e-9
    assert 0 < result.fairness <= 1 + 1e-9
    assert result.evictions or result.lost_s == 0


def test_who_waits_for_a_promise_when_the_last_event_has_passed_still_runs() -> None:
    at = (
        1824,
        3790,
        4162,
        5835,
        6439,
        6776,
        7855,
        9045,
        10909,
        10953,
        12443,
        14265,
        15026,
        16189,
        16884,
        16906,
    )
    took = (7824, 2472, 507, 319, 1763, 7632, 8843, 8698, 816, 3957, 2654, 194, 1527, 189, 8794, 1073, 2721)
    width = (4, 4, 8, 2, 1, 1, 2, 1, 1, 1, 3, 3, 6, 6, 6, 3, 4)
    queues = "yyyyyyxxxxxyyyxyx"
    jobs = [
        TraceJob(f"j{n}", float(when), float(took[n]), width[n], queue=queues[n])
        for n, when in enumerate((*at, 18537))
    ]
    result = simulate(Trace("t", jobs), cluster("2x4"), scheme("ours"), Costs(600.0, 30.0, 30.0))
    assert (result.unfinished, len(result.jct_s)) == (0, 17)


@pytest.mark.parametrize("policy", ["fifo", "tiresias", "ours"])
def test_without_an_oracle_nobody_asks_it(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from l2_aistation.simulator.engine import Simulation

    def asked(_self: Simulation, name: str) -> float:
        raise AssertionError(f"{policy} asked how long {name} will run")

    monkeypatch.setattr(Simulation, "remaining", asked)
    sample = read_trace(TRACES / "philly_sample.csv.gz").head(300)
    result = simulate(sample, cluster("4x8"), scheme(policy))
    assert len(result.jct_s) + result.rejected + result.unfinished == 300
    assert not result.oracle


def test_easy_looks_no_deeper_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("l2_aistation.simulator.policies.easy.DEPTH", 2)
    # d would fit and end in time, but stands third: after a ended, b and c are looked at, d is not.
    result = simulate(trace((0, 10, 1), (1, 5, 2), (2, 20, 1), (3, 3, 1)), cluster("1x2"), scheme("easy"))
    assert spans(result) == [10, 14, 33, 15]


def test_quotas_change_while_jobs_run() -> None:
    seen: list[tuple[float, float]] = []

    class Spy(Easy):
        def allocate(self, session: object) -> None:
            assert isinstance(self.world, World)
            seen.append((self.world.queues["x"].guarantee_accelerators, session.now))  # type: ignore[attr-defined]
            super().allocate(session)  # type: ignore[arg-type]

    jobs = Trace("t", [TraceJob(f"j{n}", n * 10.0, 15.0, 1, queue="x") for n in range(4)])
    jobs.quotas = [QuotaChange(0.0, "x", 1), QuotaChange(25.0, "x", 7)]
    simulate(jobs, cluster("1x1"), Spy())
    assert {quota for quota, at in seen if at < 25} == {1}
    assert {quota for quota, at in seen if at >= 25} == {7}


def test_jobs_that_never_fit_are_counted() -> None:
    result = simulate(trace((0, 10, 64), (1, 5, 1)), cluster("2x8"), scheme("fifo"))
    assert (result.rejected, spans(result)) == (1, [5])


def test_costs_are_checked() -> None:
    with pytest.raises(BadInput, match="checkpoint_s"):
        Costs(checkpoint_s=0)
    with pytest.raises(BadInput, match="restart_s"):
        Costs(restart_s=-1)


def test_a_third_party_is_told_what_there_is() -> None:
    with pytest.raises(BadInput, match="fifo, easy, sjf, tiresias, ours"):
        scheme("best")


def test_a_quota_that_comes_while_jobs_run_takes_effect() -> None:
    """Queue x is sure of one of two accelerators from 500 on: it need not wait for those of y to end."""
    jobs = [TraceJob(f"y{number}", 0.0, 3000.0, 1, queue="y") for number in range(4)]
    jobs += [TraceJob("x", 100.0, 60.0, 1, queue="x")]
    plain = simulate(Trace("t", list(jobs)), cluster("1x2"), scheme("ours"))
    assert float(plain.jct_s[-1]) == 2960  # the first end is at 3000
    quotas = [QuotaChange(500.0, "x", 1)]
    sure = simulate(Trace("t", list(jobs), quotas), cluster("1x2"), scheme("ours"))
    assert float(sure.jct_s[-1]) == 460  # reclaimed at 500
    assert (sure.evictions, sure.unfinished) == (1, 0)
