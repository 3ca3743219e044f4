"""Calibration, reliability and agreement: values worked out by hand or published."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from l3_ylink.datakit.quality.agreement import agreement, confusion, kappa
from l3_ylink.datakit.quality.calibration import Method, auc, fit, reliability


def test_isotonic_pools_neighbours_that_fall() -> None:
    # Barlow et al.: 1, 0, 1, 0, 1 -> the violators (1, 0) and (1, 0) are pooled to 1/2
    curve = fit("isotonic", np.array([0.1, 0.2, 0.3, 0.4, 0.5]), np.array([1, 0, 1, 0, 1]) == 1)
    assert curve.apply(np.array([0.1, 0.2, 0.35, 0.5, 0.9])).tolist() == [0.5, 0.5, 0.5, 1.0, 1.0]


def test_platt_finds_the_curve_that_made_the_labels() -> None:
    draw = np.random.default_rng(3)
    odds = draw.normal(0, 2, 20_000)
    truth = draw.random(20_000) < 1 / (1 + np.exp(-(1.5 * odds - 0.7)))
    curve = fit("platt", 1 / (1 + np.exp(-odds)), truth)
    assert curve.x[0] == pytest.approx(1.5, abs=0.08)
    assert curve.y[0] == pytest.approx(-0.7, abs=0.08)


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_calibration_makes_stated_probabilities_seen_ones(method: Method) -> None:
    draw = np.random.default_rng(5)
    real = draw.random(30_000)
    truth = draw.random(30_000) < real
    bold = real**3 / (real**3 + (1 - real) ** 3)  # says 0.9 where 0.68 is true
    curve = fit(method, bold[:20_000], truth[:20_000])
    before = reliability(bold[20_000:], truth[20_000:])
    after = reliability(curve.apply(bold[20_000:]), truth[20_000:])
    assert before["error"] > 0.1
    assert after["error"] < 0.02
    assert after["brier"] < before["brier"]


@given(
    st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=60), st.sampled_from(["isotonic", "platt"])
)
def test_a_calibrated_score_never_falls_when_the_raw_one_rises(
    rows: list[tuple[float, bool]], method: Method
) -> None:
    curve = fit(method, np.array([row[0] for row in rows]), np.array([row[1] for row in rows], bool))
    found = curve.apply(np.linspace(0, 1, 101))
    assert (np.diff(found) >= -1e-12).all()
    assert ((found >= 0) & (found <= 1)).all()


def test_one_class_alone_cannot_be_calibrated() -> None:
    assert fit("isotonic", np.array([0.2, 0.4]), np.array([True, True])).method == "none"


def test_reliability_counts_in_bins() -> None:
    found = reliability(np.array([0.05, 0.95, 0.95, 1.0]), np.array([False, True, False, True]))
    assert [(row["count"], row["stated"], row["seen"]) for row in found["bins"]] == [
        (1, 0.05, 0.0),
        (3, 0.9667, 0.6667),
    ]
    assert found["error"] == pytest.approx(0.25 * 0.05 + 0.75 * 0.3, abs=1e-5)
    assert found["auc"] == 0.875


def test_auc_counts_ties_half_and_needs_two_classes() -> None:
    assert auc(np.array([0.5, 0.5, 0.1]), np.array([True, False, False])) == 0.75
    assert auc(np.array([0.5]), np.array([True])) is None


def test_kappa_is_that_of_the_textbook() -> None:
    # 50 grant proposals read twice: 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no -> kappa 0.4
    first = ["yes"] * 25 + ["no"] * 25
    second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    found = agreement(first, second, ["no", "yes"])
    assert (found["kappa"], found["equal"], found["confusion"]) == (0.4, 0.7, [[15, 10], [5, 20]])
    assert found["labels"][1] == {"label": "yes", "count": 25, "recall": 0.8, "precision": 0.66667}


def test_weighted_kappa_forgives_near_misses() -> None:
    labels = ["0", "1", "2"]
    near = confusion(["0", "1", "2", "2"], ["0", "1", "1", "2"], labels)
    far = confusion(["0", "1", "2", "2"], ["0", "1", "0", "2"], labels)
    plain, weighted = kappa(near), kappa(near, "quadratic")
    assert plain is not None
    assert weighted is not None
    assert weighted > plain
    assert weighted > (kappa(far, "quadratic") or 0)


def test_kappa_says_nothing_where_chance_explains_all() -> None:
    assert kappa(confusion(["a"], ["a"], ["a"])) is None
