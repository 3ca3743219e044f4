"""Threshold curves: shares that are right at every point, for any values, in bounded memory."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from l3_ylink.datakit.recipe import parse_recipe
from l3_ylink.datakit.report.curves import Curve, Tally, cell_of, value_of
from l3_ylink.datakit.report.dials import Dial, dials
from l3_ylink.datakit.steps.base import KEPT
from l3_ylink.web.sides import Line, sides

FLOATS = st.floats(-1e6, 1e6, width=32)


def curve(values: list[float], dial: Dial, steps: list[int] | None = None) -> list[Curve]:
    tally = Tally([dial])
    columns: Any = {"units": np.array(values), "language": ["en"] * len(values)}
    tally.add(columns, np.array(steps or [KEPT] * len(values), np.int16))
    return tally.curves()


@given(st.lists(FLOATS, min_size=1, max_size=60), FLOATS, st.sampled_from(["min", "max"]))
def test_a_share_is_that_of_the_values_on_the_right_side(values: list[float], at: float, bound: str) -> None:
    found = curve(values, Dial("quality.x", 0, "x", "units", bound, "en", at))[0]
    array = np.array(values)
    exact = (array >= at) if bound == "min" else (array <= at)
    assert found.held == pytest.approx(float(exact.mean()), abs=1e-4)
    for where, share in found.points:
        slack = abs(where) / 100 + 1e-4  # values of one cell are not told apart
        low = (array >= where + slack).mean() if bound == "min" else (array <= where - slack).mean()
        high = (array >= where - slack).mean() if bound == "min" else (array <= where + slack).mean()
        assert low - 1e-3 <= share <= high + 1e-3


@given(st.lists(FLOATS, min_size=2, max_size=50))
def test_cells_have_the_order_of_their_values(values: list[float]) -> None:
    array = np.sort(np.array(values))
    cells = cell_of(array)
    assert (np.diff(cells) >= 0).all()
    for value, cell in zip(array.tolist(), cells.tolist(), strict=True):
        assert value_of(cell) <= value + 1e-30


def test_only_documents_that_came_to_the_step_are_counted() -> None:
    dial = Dial("quality.thresholds.en.x", 1, "x", "units", "min", "en", 5.0)
    found = curve([1, 10, 10, 10], dial, [0, 1, 2, KEPT])[0]  # the first was dropped before
    assert (found.count, found.held) == (3, 1.0)
    assert curve([1.0], dial._replace(kind="zh")) == []


def test_every_threshold_that_only_decides_has_a_dial() -> None:
    steps = ["extract", "language", "quality", "personal", "near"]
    recipe = parse_recipe(
        {
            "name": "t",
            "sources": [{"name": "a", "licence": "MIT"}],
            "steps": [{"step": step} for step in steps],
        }
    )
    found = {dial.setting: dial for dial in dials(recipe)}
    assert found["language.least_score"].signal == "language_score"
    assert found["quality.thresholds.zh.min_units"].value == 10
    assert found["near.threshold"].signal == ""
    assert found["personal.most"].value is None


def test_sides_say_line_by_line_what_differs() -> None:
    before, after = sides(
        "Menu\nA  line\nmail a@b.c", "A line\nmail <EMAIL>\ntwice", [{"start": 19, "end": 24}]
    )
    assert [line.kind for line in before] == ["gone", "", "gone"]
    assert after == [Line("A line", ""), Line("mail <EMAIL>", "new"), Line("twice", "cut")]
