"""Rules of promotion: what can be said, and what is told when it cannot."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l4_mmodel._kit.documents import Producer, Reference
from l4_mmodel.api import BadInput, EvalReport
from l4_mmodel.documents import Item, LatencySummary, StabilityRun
from l4_mmodel.evaluation.comparing import compare, differing, overall
from l4_mmodel.evaluation.rules import NAMES, judge_rule, needs_baseline, parse_rule

DIGEST = "sha256:" + "0" * 64


def report(correct: list[bool], *, suite: str = DIGEST, **fields: Any) -> EvalReport:
    reference = Reference(schema_="ogai.model-manifest/v1", digest=DIGEST)
    items = [
        Item(task=f"t{n % 2}", item=str(n), prompt_sha256=DIGEST, answer="a", expected="b", correct=right)
        for n, right in enumerate(correct)
    ]
    request = LatencySummary(name="request", requests=4, p50_ms=100, p90_ms=200, p99_ms=300, mean_ms=120)
    first = LatencySummary(
        name="time_to_first_token", requests=4, p50_ms=10, p90_ms=20, p99_ms=30, mean_ms=12
    )
    stability = StabilityRun(repeats=3, temperature=0, seeds=[0, 1, 2], equal_answers=1, error_rate=0)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return EvalReport(
        producer=Producer(name="test", version="1"), model=reference, model_name="m@1", suite="s",
        suite_version="1", suite_digest=suite, runtime="r", started_at=now, ended_at=now, seed=1,
        metrics=[], latency=[request, first], stability=stability, items=items, **fields,
    )  # fmt: skip


BETTER, WORSE = report([True] * 18 + [False] * 2), report([True] * 8 + [False] * 12)


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        (">= baseline", True),
        (">= baseline and p < 0.05", True),
        (">= baseline and p < 0.001", False),
        ("> baseline and p90_ms <= 300 and error_rate == 0", True),
        ("accuracy >= 0.95", False),
        ("low > 0.1", True),
        ("first_p50_ms < 5", False),
        ("p50_ms <= baseline", True),
        ("n >= 20 and equal_answers >= 0.99", True),
    ],
)
def test_what_a_rule_comes_to(rule: str, holds: bool) -> None:
    verdicts = judge_rule(parse_rule(rule), BETTER, WORSE, overall(BETTER, WORSE))
    assert all(verdict.holds for verdict in verdicts) is holds


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ("", "not a condition"),
        ("good", "not a condition"),
        (">= baseline or p < 1", "not a condition"),
        ("speed > 3", "not measured"),
        ("p < baseline", "no baseline of its own"),
        ("p < 0.05; import os", "not a condition"),
    ],
)
def test_what_cannot_be_said(rule: str, fault: str) -> None:
    with pytest.raises(BadInput, match=fault):
        parse_rule(rule)


def test_a_number_that_was_not_measured_is_named() -> None:
    bare = BETTER.model_copy(update={"latency": []})
    with pytest.raises(BadInput, match="p90_ms was not measured for m@1"):
        judge_rule(parse_rule("p90_ms < 5"), bare, None, None)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(NAMES)),
            st.sampled_from([">=", "<=", ">", "<", "=="]),
            st.floats(0, 1000).map(lambda value: round(value, 3)),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_rule_reads_back_as_it_was_written(conditions: list[tuple[str, str, float]]) -> None:
    text = " and ".join(f"{name} {operator} {value}" for name, operator, value in conditions)
    read = parse_rule(text)
    assert [(one.name, one.operator, one.bound) for one in read] == conditions
    assert needs_baseline(read) == any(
        name in ("p", "difference", "low", "high") for name, _, _ in conditions
    )


def test_comparison_is_by_task_and_over_all() -> None:
    rows = compare(BETTER, WORSE)
    assert [row.task for row in rows] == ["t0", "t1", "*"]
    assert rows[-1].difference == pytest.approx(0.5)
    assert rows[-1].baseline.digest == WORSE.digest()
    assert len(differing(BETTER, WORSE)) == 10


def test_reports_on_different_suites_are_not_compared() -> None:
    with pytest.raises(BadInput, match="not the same suite"):
        compare(BETTER, report([True], suite="sha256:" + "1" * 64))
