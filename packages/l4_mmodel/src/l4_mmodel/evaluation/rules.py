"""The rule of a promotion, as `>= baseline and p < 0.05 and p90_ms <= 300`.  Pure.

    rule      = condition { "and" condition }
    condition = [ name ] operator ( number | "baseline" )

`>= baseline` alone is about accuracy.  Names: accuracy, p, difference, low, high (of the difference's
interval), n, error_rate, equal_answers, and of latency p50_ms, p90_ms, p99_ms (whole requests),
first_p50_ms, first_p90_ms, first_p99_ms (to the first token), tokens_per_s.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from l4_mmodel._kit.problems import BadInput
from l4_mmodel.documents import EvalReport, PairedComparison

from .comparing import accuracy

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq,
}  # fmt: skip
CONDITION = re.compile(
    r"^\s*([a-z][a-z0-9_]*)?\s*(>=|<=|==|>|<)\s*(baseline|[+-]?\d+(?:\.\d+)?(?:e-?\d+)?)\s*$"
)
NEEDS_BASELINE = {"p", "difference", "low", "high"}
NAMES = {
    "accuracy", "n", "error_rate", "equal_answers", "tokens_per_s", "p50_ms", "p90_ms", "p99_ms",
    "first_p50_ms", "first_p90_ms", "first_p99_ms", *NEEDS_BASELINE,
}  # fmt: skip


@dataclass(frozen=True)
class Condition:
    """One comparison; `bound` None means the baseline's own value."""

    name: str
    operator: str
    bound: float | None

    def __str__(self) -> str:
        return f"{self.name} {self.operator} {'baseline' if self.bound is None else f'{self.bound:g}'}"


@dataclass(frozen=True)
class Verdict:
    """A condition with what was found."""

    condition: str
    found: float
    bound: float
    holds: bool


def parse_rule(text: str) -> list[Condition]:
    """The conditions of a rule; a `BadInput` shows the part that cannot be read."""
    conditions = []
    for part in re.split(r"\band\b", text):
        found = CONDITION.match(part)
        if found is None:
            raise BadInput(
                f"{part.strip()!r} is not a condition", field="rule",
                do="write e.g. '>= baseline and p < 0.05 and p90_ms <= 300'",
            )  # fmt: skip
        name = found[1] or "accuracy"
        if name not in NAMES:
            raise BadInput(
                f"{name!r} is not measured", field="rule", do=f"use one of {', '.join(sorted(NAMES))}"
            )
        bound = None if found[3] == "baseline" else float(found[3])
        if bound is None and name in NEEDS_BASELINE:
            raise BadInput(
                f"{name!r} has no baseline of its own", field="rule", do="compare it with a number"
            )
        conditions.append(Condition(name, found[2], bound))
    return conditions


def needs_baseline(conditions: list[Condition]) -> bool:
    """Whether the rule speaks of a baseline at all."""
    return any(condition.bound is None or condition.name in NEEDS_BASELINE for condition in conditions)


def judge_rule(
    conditions: list[Condition],
    candidate: EvalReport,
    baseline: EvalReport | None,
    comparison: PairedComparison | None,
) -> list[Verdict]:
    """Each condition with what was measured."""
    ours = measured(candidate, comparison)
    theirs = measured(baseline, None) if baseline is not None else {}
    verdicts = []
    for condition in conditions:
        found = _value(ours, condition.name, candidate.model_name)
        bound = condition.bound
        if bound is None:
            bound = _value(theirs, condition.name, "the baseline")
        holds = OPERATORS[condition.operator](found, bound)
        verdicts.append(Verdict(str(condition), found, bound, holds))
    return verdicts


def measured(report: EvalReport, comparison: PairedComparison | None) -> dict[str, float]:
    """Every number that a rule may name."""
    values: dict[str, float] = {"accuracy": accuracy(report), "n": float(len(report.items))}
    for row in report.latency:
        prefix = {"request": "", "time_to_first_token": "first_"}.get(row.name)
        if prefix is not None:
            values |= {f"{prefix}{name}": getattr(row, name) for name in ("p50_ms", "p90_ms", "p99_ms")}
        if row.tokens_per_s is not None:
            values["tokens_per_s"] = row.tokens_per_s
    if report.stability is not None:
        values["error_rate"] = report.stability.error_rate
        values["equal_answers"] = report.stability.equal_answers
    if comparison is not None:
        values |= {
            "p": comparison.p_value, "difference": comparison.difference,
            "low": comparison.low, "high": comparison.high,
        }  # fmt: skip
    return values


def _value(values: Mapping[str, float], name: str, whose: str) -> float:
    if name not in values:
        raise BadInput(f"{name} was not measured for {whose}", field="rule", do="add it to the suite")
    return values[name]
