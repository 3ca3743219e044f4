"""What is due to queues, and how near they come to it, against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from l2_aistation.simulator import QuotaChange, Trace, TraceJob, cluster, scheme, simulate
from l2_aistation.simulator.shares import Shares, fair_division

AMOUNTS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 10)), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("wanted", "guarantee", "due"),
    [
        ([10, 2, 10], [0, 0, 0], [5, 2, 5]),  # who wants little gets it, the rest is halved
        ([10, 2, 10], [8, 0, 0], [8, 2, 2]),  # a guarantee goes first
        ([3, 20, 20], [8, 0, 0], [3, 4.5, 4.5]),  # but only as far as it is wanted
        ([1, 2, 3], [0, 0, 0], [1, 2, 3]),  # enough for all
    ],
)
def test_what_is_due_by_hand(wanted: list[float], guarantee: list[float], due: list[float]) -> None:
    found = fair_division(np.array(wanted, float), np.array(guarantee, float), 12.0)
    assert found == pytest.approx(due, abs=1e-6)


@given(AMOUNTS)
def test_what_is_due_is_max_min_fair(amounts: list[tuple[int, int]]) -> None:
    """All of the capacity is due, and whoever wants more gets no less than the others beyond guarantees."""
    wanted, sure = (np.array(column, dtype=float) for column in zip(*amounts, strict=True))
    capacity = 60.0  # the guarantees fit
    due = fair_division(wanted, sure, capacity)
    assert due.sum() == pytest.approx(min(wanted.sum(), capacity), abs=1e-6)
    assert (due >= np.minimum(wanted, sure) - 1e-6).all()
    for number in np.flatnonzero(due < wanted - 1e-6):
        above = due[due > np.maximum(due[number], 0) + 1e-6]
        assert all(any(amount <= one + 1e-6 for one in sure) for amount in above)


def test_looks_count_only_while_more_is_wanted_than_there_is() -> None:
    shares = Shares(["a", "b"], 8, 0.0)
    shares.want("a", 8)
    shares.hold("a", 8)
    shares.advance(6000)
    assert shares.looks == 0
    shares.want("b", 8)
    shares.sure("b", 2)
    shares.advance(12_000)  # a has all, b nothing of the four that are due to it
    assert shares.looks == 10
    assert shares.fairness == pytest.approx(0.5)  # Jain's index of (2, 0)
    assert shares.missing == 1.0
    shares.hold("a", -4)
    shares.hold("b", 4)
    shares.advance(18_000)
    assert shares.fairness == pytest.approx(0.75)
    assert shares.missing == pytest.approx(0.5)


def test_guaranteed_queues_have_their_part_under_ours_and_not_under_fifo() -> None:
    """A queue that floods the cluster leaves the other its guarantee, once that has work."""
    flood = [TraceJob(f"a{number}", 0.0, 40_000.0, 1, queue="a") for number in range(24)]
    late = [TraceJob(f"b{number}", 1000.0, 40_000.0, 1, queue="b") for number in range(8)]
    trace = Trace("t", [*flood, *late], [QuotaChange(0.0, "a", 4), QuotaChange(0.0, "b", 4)])
    ours = simulate(trace, cluster("1x8"), scheme("ours"))
    fifo = simulate(trace, cluster("1x8"), scheme("fifo"))
    assert ours.share_fairness > 0.9 > fifo.share_fairness
    assert ours.guarantee_missing < 0.1 < fifo.guarantee_missing
