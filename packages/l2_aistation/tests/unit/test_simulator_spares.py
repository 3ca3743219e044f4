"""The planner of spares against published clusters and against queueing theory."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest
from l2_aistation._kit.problems import BadInput
from l2_aistation.cli import app
from l2_aistation.simulator.spares import DAY, HOUR, Fleet, plan_spares, simulate_fleet
from typer.testing import CliRunner

LLAMA3 = Fleet(2048, 419 / 54 / 2048, repair=DAY, recovery=300.0, stall=2.0)
"""16,384 H100 in nodes of eight, 419 unexpected interruptions in 54 days (arXiv 2407.21783)."""


def test_llama3s_interruptions_and_effective_time() -> None:
    """The paper: an interruption every 3.1 h, more than 90 % effective training time."""
    found = simulate_fleet(LLAMA3, 40, days=54, replications=10)
    assert found.failures == pytest.approx(419, rel=0.05)
    assert LLAMA3.mean_time_between / HOUR == pytest.approx(3.09, abs=0.02)
    assert 0.90 < found.goodput < 0.97


@pytest.mark.parametrize(
    ("accelerators", "hours"), [(16_384, 1.8), (131_072, 0.233)]
)  # arXiv 2410.21680 projects 1.8 h and 14 min from 6.50 failures per 1,000 node-days
def test_metas_projection_of_the_time_to_failure(accelerators: int, hours: float) -> None:
    fleet = Fleet(accelerators // 8, 0.0065)
    assert fleet.mean_time_between / HOUR == pytest.approx(hours, rel=0.04)


def test_the_shares_are_all_of_the_time() -> None:
    found = simulate_fleet(LLAMA3, 8, days=30, replications=5)
    whole = found.goodput + found.stalls + found.again + found.recovery + found.waiting
    assert whole == pytest.approx(1.0, abs=0.01)  # the piece that the end cuts off


def test_without_repair_in_time_failures_wait_as_poisson_says() -> None:
    """Nodes in repair are M/G/infinity: a failure waits when as many as there are spares are in repair."""
    fleet = Fleet(1000, 0.004, repair=DAY, recovery=60.0, stall=1.0)
    mean = 1000 * 0.004  # in repair, on average
    for spares in (2, 4, 8):
        waits = 1 - sum(math.exp(-mean) * mean**k / math.factorial(k) for k in range(spares))
        found = simulate_fleet(fleet, spares, days=200, replications=8)
        busy = 1 - found.waiting  # no node fails while the job waits
        assert found.waited == pytest.approx(waits, abs=0.12 + (1 - busy))


def test_more_spares_never_hurt_and_the_plan_takes_the_least_that_is_enough() -> None:
    outcomes, best = plan_spares(Fleet(512, 0.0065), days=60, replications=6)
    goodputs = [outcome.goodput for outcome in outcomes]
    assert all(later >= earlier - 0.01 for earlier, later in pairwise(goodputs))
    assert best.goodput >= max(goodputs) - 0.002
    assert best.spares < outcomes[-1].spares or len(outcomes) == 1
    mean_in_repair = 512 * 0.0065
    assert mean_in_repair < best.spares < 4 * mean_in_repair


def test_the_best_interval_is_the_best_in_the_simulation_too() -> None:
    best = simulate_fleet(LLAMA3, 40, days=40, replications=6).goodput
    for factor in (0.2, 5.0):
        other = Fleet(2048, 419 / 54 / 2048, interval=LLAMA3.checkpoint_interval * factor, stall=2.0)
        assert simulate_fleet(other, 40, days=40, replications=6).goodput < best


def test_the_same_seed_gives_the_same_figures() -> None:
    assert simulate_fleet(LLAMA3, 5, days=20, replications=3) == simulate_fleet(
        LLAMA3, 5, days=20, replications=3
    )


@pytest.mark.parametrize("wrong", [{"nodes": 0}, {"failures_per_node_day": -1.0}, {"repair": math.inf}])
def test_nonsense_is_named(wrong: dict[str, float]) -> None:
    with pytest.raises(BadInput) as told:
        Fleet(**{"nodes": 10, "failures_per_node_day": 0.1, **wrong})  # type: ignore[arg-type]
    assert told.value.field in wrong


def test_the_command_prints_what_to_buy() -> None:
    command = ["spares", "--nodes", "256", "--days", "30", "--replications", "3"]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["mean_time_between_failures_s"] == pytest.approx(DAY / (256 * 0.0065))
    assert told["spares"] >= 1
    assert "goodput" in CliRunner().invoke(app, command).stdout
