"""Intervals and tests against published values and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from l4_mmodel.evaluation.statistics import (
    bootstrap,
    compare_correct,
    compare_values,
    holm,
    mcnemar,
    percentile,
    smallest_detectable,
    standard_error,
    wilson,
)


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [  # Newcombe 1998, table I, method 3 (score)
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_is_newcombes(right: int, n: int, low: float, high: float) -> None:
    found = wilson(right, n)
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)


@given(st.integers(0, 500), st.integers(1, 500), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_is_scipys(right: int, n: int, confidence: float) -> None:
    from scipy.stats import binomtest

    right = min(right, n)
    ours = wilson(right, n, confidence)
    theirs = binomtest(right, n).proportion_ci(confidence, method="wilson")
    assert ours.low == pytest.approx(theirs.low, abs=1e-12)
    assert ours.high == pytest.approx(theirs.high, abs=1e-12)


def test_of_no_items_everything_is_possible() -> None:
    assert (wilson(0, 0).low, wilson(0, 0).high) == (0, 1)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 5))
def test_mcnemar_is_the_exact_binomial_test(gained: int, lost: int, same: int) -> None:
    from scipy.stats import binomtest

    ours = [True] * gained + [False] * lost + [True] * same
    theirs = [False] * gained + [True] * lost + [True] * same
    expected = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert mcnemar(ours, theirs) == pytest.approx(expected)


def test_mcnemar_of_thousands_does_not_overflow() -> None:
    assert mcnemar([True] * 3000 + [False] * 2800, [False] * 3000 + [True] * 2800) == pytest.approx(
        0.00896, abs=2e-4
    )


def test_a_paired_difference_has_the_sign_of_the_better_one() -> None:
    found = compare_correct([True] * 18 + [False] * 2, [True] * 8 + [False] * 12, seed=1)
    assert found.difference == pytest.approx(0.5)
    assert 0 < found.low < 0.5 < found.high < 1
    assert found.p_value == pytest.approx(2 / 2**10)


def test_the_same_seed_gives_the_same_interval() -> None:
    values = np.random.default_rng(0).normal(size=50).tolist()
    assert bootstrap(values, seed=3) == bootstrap(values, seed=3)
    assert bootstrap(values, seed=3) != bootstrap(values, seed=4)


def test_a_permutation_test_sees_a_shift_and_no_shift() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=80)
    assert compare_values((base + 0.5).tolist(), base.tolist(), seed=0).p_value < 0.001
    assert compare_values(base.tolist(), rng.permutation(base).tolist(), seed=0).p_value > 0.05


def test_items_of_one_cluster_count_as_one() -> None:
    values = [0.0, 1.0, 0.0, 1.0] * 25
    alone = standard_error(values)
    assert alone == pytest.approx(0.0503, abs=1e-4)
    assert standard_error(values, [str(n) for n in range(100)]) == pytest.approx(alone, rel=0.01)
    doubled = [value for value in values for _ in range(2)]
    clusters = [str(n // 2) for n in range(200)]
    assert standard_error(doubled, clusters) == pytest.approx(alone, rel=0.01)  # copies add nothing


def test_percentiles_are_values_that_occurred() -> None:
    values = [10.0, 20.0, 30.0, 40.0]
    assert [percentile(values, share) for share in (0, 0.5, 0.75, 0.9, 1)] == [10, 20, 30, 40, 40]


def test_holm_is_the_papers_procedure() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_more_items_reveal_smaller_differences() -> None:
    assert smallest_detectable(1000, 0.2) == pytest.approx(0.0396, abs=1e-3)
    assert smallest_detectable(4000, 0.2) == pytest.approx(0.0396 / 2, abs=1e-3)
