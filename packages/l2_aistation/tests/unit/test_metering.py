"""Metering: cut to the window, nothing twice, and the same sum whichever way it is asked."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l2_aistation.core.metering import (
    DIMENSIONS,
    PER_HOUR,
    Capacity,
    Dimension,
    Stretch,
    capacity_at,
    pool_usage,
    series,
    settled,
    usage,
)

HOUR = 3600.0


def stretch(
    job: str = "a",
    attempt: int = 1,
    *,
    held: dict[str, float] | None = None,
    start: float = 0,
    end: float | None = HOUR,
    run: tuple[float | None, float | None] = (0, None),
    tenant: str = "red",
) -> Stretch:
    return Stretch(job, attempt, tenant, "q", "ann", held or {"H100": 8}, start, end, *run)


def hours(value: int) -> float:
    return value / PER_HOUR


def test_eight_accelerators_for_an_hour_are_eight_hours() -> None:
    (row,) = usage([stretch()], "tenant", 0, 2 * HOUR)
    assert (row.key, hours(row.held), hours(row.used), row.jobs) == ("red", 8.0, 8.0, 1)


def test_a_start_of_ten_minutes_and_a_fault_ten_minutes_before_the_end_are_idle() -> None:
    (row,) = usage([stretch(run=(600, 3000))], "queue", 0, HOUR)
    assert row.idle_share == pytest.approx(1 / 3)
    assert hours(row.idle) == pytest.approx(8 / 3)


def test_what_never_ran_is_idle_altogether() -> None:
    (row,) = usage([stretch(run=(None, None))], "user", 0, HOUR)
    assert row.idle_share == 1.0


def test_half_an_accelerator_counts_half() -> None:
    (row,) = usage([stretch(held={"A10": 0.5})], "model", 0, HOUR)
    assert (row.key, hours(row.held)) == ("A10", 0.5)


def test_an_attempt_that_was_never_closed_ends_where_the_next_begins() -> None:
    both = [stretch(end=None), stretch(attempt=2, start=1800, end=HOUR, run=(1800, None))]
    (row,) = usage(settled(both), "tenant", 0, HOUR)
    assert (hours(row.held), row.jobs, row.attempts) == (8.0, 1, 2)


def test_the_pool_is_used_idle_broken_and_free() -> None:
    log = [Capacity(0, {"H100": 16}, {}), Capacity(1800, {"H100": 16}, {"H100": 4})]
    (row,) = pool_usage([stretch(run=(900, None))], log, 0, HOUR)
    assert hours(row.capacity) == 16
    assert [hours(part) for part in (row.used, row.idle, row.out_of_service, row.free)] == [6, 2, 2, 6]
    assert row.idle_share == pytest.approx(10 / 16)


def test_the_pool_s_figures_begin_where_its_log_begins() -> None:
    (row,) = pool_usage([stretch()], [Capacity(1800, {"H100": 8}, {})], 0, HOUR)
    assert (hours(row.capacity), hours(row.held), row.free) == (4, 4, 0)
    assert pool_usage([stretch()], [], 0, HOUR) == []


def test_the_capacity_of_a_moment() -> None:
    log = [Capacity(10, {"a": 1}, {}), Capacity(20, {"a": 2}, {})]
    assert capacity_at(log, 5) is None
    assert capacity_at(log, 10) is log[0]
    assert capacity_at(log, 25) is log[1]


@st.composite
def histories(draw: st.DrawFn) -> list[Stretch]:
    """Jobs with attempts one after another, some still open, some cut off without an end."""
    found = []
    moment = st.integers(0, 20_000)
    for number in range(draw(st.integers(0, 6))):
        at = draw(moment)
        tenant, queue, user = (draw(st.sampled_from("xyz")) for _ in range(3))
        for attempt in range(1, draw(st.integers(1, 3)) + 1):
            length, start, run = draw(st.integers(0, 9000)), draw(st.integers(0, 500)), draw(moment)
            held = draw(st.dictionaries(st.sampled_from(["H100", "A10"]), st.sampled_from([0.25, 1, 8, 64])))
            end = None if draw(st.booleans()) else at + length
            run_from = at + start if draw(st.booleans()) else None
            run_until = at + start + run if draw(st.booleans()) else None
            found.append(
                Stretch(f"j{number}", attempt, tenant, queue, user, held, at, end, run_from, run_until)
            )
            at += length
    return found


WINDOWS = st.lists(st.floats(0, 40_000), min_size=3, max_size=3, unique=True).map(sorted)


@given(histories(), WINDOWS)
def test_every_dimension_adds_up_to_the_same(history: list[Stretch], window: list[float]) -> None:
    rows = list(settled(history))
    sums = {
        (sum(row.held for row in found), sum(row.used for row in found))
        for found in (usage(rows, by, window[0], window[2]) for by in DIMENSIONS)
    }
    assert len(sums) == 1


@given(histories(), WINDOWS, st.sampled_from(DIMENSIONS))
def test_neighbouring_windows_add_up(history: list[Stretch], window: list[float], by: Dimension) -> None:
    rows = list(settled(history))

    def sums(since: float, until: float) -> dict[str, tuple[int, int]]:
        return {row.key: (row.held, row.used) for row in usage(rows, by, since, until)}

    first, second, whole = sums(*window[:2]), sums(*window[1:]), sums(window[0], window[2])
    for key in first | second | whole:
        parts = (first.get(key, (0, 0)), second.get(key, (0, 0)))
        assert (parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]) == whole.get(key, (0, 0))


@given(histories(), WINDOWS)
def test_no_job_holds_more_than_its_largest_attempt_at_any_time(
    history: list[Stretch], window: list[float]
) -> None:
    since, _, until = window
    rows = list(settled(history))
    for name, attempts in itertools.groupby(history, key=lambda one: one.job):
        most = max(sum(one.held.values()) for one in attempts)
        mine = [one for one in rows if one.job == name]
        held = sum(row.held for row in usage(mine, "tenant", since, until))
        assert held <= round(most * 1000) * (round(until * 1000) - round(since * 1000))
    for row in usage(rows, "model", since, until):
        assert 0 <= row.used <= row.held


@given(histories(), WINDOWS)
def test_the_curve_s_area_is_the_usage(history: list[Stretch], window: list[float]) -> None:
    since, until = round(window[0], 3), round(window[2], 3)
    if until - since < 1:
        return
    edges = [since + (until - since) * part / 7 for part in range(8)]
    rows = list(settled(history))
    curves = series(rows, "queue", edges, until)
    for row in usage(rows, "queue", since, until):
        area = sum(
            mean * (right - left)
            for mean, left, right in zip(curves.get(row.key, []), edges, edges[1:], strict=False)
        )
        assert area == pytest.approx(row.held / 1e6, rel=1e-3, abs=5.0)
