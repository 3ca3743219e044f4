"""Checkpoint intervals against published cases and against the integral that they approximate."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l2_aistation.core.reliability import (
    FailureRate,
    daly_interval,
    plan_interval,
    waste,
    young_interval,
)

HOUR = 3600.0
LLAMA3 = 3.09 * HOUR
"""Llama 3 405B: 419 unexpected interruptions in 54 days (arXiv 2407.21783): one in 3.09 h."""


@pytest.mark.parametrize(
    ("stall", "between", "young", "daly", "lost"),
    [
        (60.0, LLAMA3, 1156, 1116, 0.104),
        (2.0, LLAMA3, 211, 209, 0.019),
        (0.4, LLAMA3, 94, 94, 0.0085),
        (40.0, 168 * HOUR, 6956, 6929, 0.0115),  # BLOOM: 40 s a save, one failure a week
    ],
)
def test_intervals_of_published_runs(
    stall: float, between: float, young: float, daly: float, lost: float
) -> None:
    assert young_interval(stall, between) == pytest.approx(young, abs=1)
    assert daly_interval(stall, between) == pytest.approx(daly, abs=2.5)
    assert waste(young_interval(stall, between), stall, between) == pytest.approx(lost, rel=0.02)


def test_the_reference_rate_gives_the_published_time_between_failures() -> None:
    """16,384 accelerators at 1.97e-5 failures an hour each: 3.1 h."""
    assert FailureRate(0, 0.0).mean_time_between(16_384) / HOUR == pytest.approx(3.1, rel=0.01)


def test_what_was_seen_outweighs_the_reference() -> None:
    """1,000 accelerators for 100 hours with 20 failures: 2e-4 an hour, whatever was believed."""
    seen = FailureRate(20, 1000 * 100 * HOUR)
    assert seen.per_accelerator_second * HOUR == pytest.approx(2e-4, rel=0.35)
    assert FailureRate(2000, 1000 * 10_000 * HOUR).per_accelerator_second * HOUR == pytest.approx(
        2e-4, rel=0.01
    )


@given(st.floats(0.01, 600), st.floats(700, 1e7))
def test_no_other_interval_wastes_less_to_first_order(stall: float, between: float) -> None:
    best = young_interval(stall, between)
    assert all(
        waste(best, stall, between) <= waste(best * factor, stall, between) + 1e-12
        for factor in (0.5, 0.9, 1.1, 2)
    )


@given(st.floats(1e-3, 100), st.floats(1e3, 1e6))
def test_daly_is_the_minimum_of_the_exact_model(stall: float, between: float) -> None:
    """Daly's complete model: time grows as M (exp((T + S) / M) - 1) / T; his formula is near its minimum."""

    def cost(interval: float) -> float:
        return between * math.expm1((interval + stall) / between) / interval

    best = daly_interval(stall, between)
    around = [cost(best * factor) for factor in (0.6, 0.8, 1.25, 1.6)]
    assert cost(best) <= min(around) * (1 + 1e-9)


def test_a_plan_is_in_whole_steps_and_says_why() -> None:
    plan = plan_interval(stall=2.0, step_time=5.0, accelerators=16_384, rate=FailureRate(0, 0.0))
    assert plan.steps == 42  # 209 s
    assert plan.seconds == 210
    assert plan.waste == pytest.approx(0.019, rel=0.03)
    assert any("Daly" in reason for reason in plan.reasons)


def test_a_save_waits_until_the_last_one_is_durable() -> None:
    plan = plan_interval(
        stall=0.01, step_time=1.0, accelerators=1000, rate=FailureRate(5, 1e7), least_write=3600.0
    )
    assert plan.steps == 3600


def test_it_is_planned_again_when_failures_come() -> None:
    calm = plan_interval(stall=1.0, step_time=1.0, accelerators=512, rate=FailureRate(0, 512 * 10 * HOUR))
    storm = plan_interval(stall=1.0, step_time=1.0, accelerators=512, rate=FailureRate(40, 512 * 10 * HOUR))
    assert storm.steps < calm.steps / 3


@pytest.mark.parametrize(("stall", "between"), [(0.0, 1.0), (1.0, 0.0), (-1.0, 5.0)])
def test_nonsense_is_refused(stall: float, between: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        daly_interval(stall, between)
