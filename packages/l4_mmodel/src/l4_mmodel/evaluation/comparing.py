"""Two reports over the same items: per task, difference, interval and p-value.  Pure."""

from __future__ import annotations

from l4_mmodel._kit.problems import BadInput
from l4_mmodel.documents import EvalReport, Item, PairedComparison

from .statistics import Paired, compare_correct

ALL = "*"
"""The name of all tasks together."""


def compare(candidate: EvalReport, baseline: EvalReport) -> list[PairedComparison]:
    """One row a task, and one (task `*`) over all items where there is more than one task."""
    if candidate.suite_digest != baseline.suite_digest:
        raise BadInput(
            f"{candidate.suite} {candidate.suite_version} of {candidate.model_name} and "
            f"{baseline.suite} {baseline.suite_version} of {baseline.model_name} are not the same suite",
            field="suite", do="evaluate both models with one suite",
        )  # fmt: skip
    tasks = sorted({item.task for item in candidate.items})
    groups = [(task, [task]) for task in tasks]
    if len(tasks) > 1:
        groups.append((ALL, tasks))
    rows = []
    for name, members in groups:
        ours, theirs = _pairs(candidate, baseline, members)
        paired = compare_correct(ours, theirs, seed=candidate.seed)
        rows.append(_row(baseline, name, paired))
    return rows


def overall(candidate: EvalReport, baseline: EvalReport) -> PairedComparison:
    """The row over all items."""
    return compare(candidate, baseline)[-1]


def accuracy(report: EvalReport) -> float:
    """The share of right items over all tasks."""
    return sum(item.correct for item in report.items) / len(report.items) if report.items else 0.0


def differing(candidate: EvalReport, baseline: EvalReport) -> list[tuple[Item, Item]]:
    """The items that only one of the two got right, candidate's first."""
    theirs = {(item.task, item.item): item for item in baseline.items}
    pairs = [(item, theirs[item.task, item.item]) for item in candidate.items]
    return [(ours, other) for ours, other in pairs if ours.correct != other.correct]


def _pairs(candidate: EvalReport, baseline: EvalReport, tasks: list[str]) -> tuple[list[bool], list[bool]]:
    theirs = {(item.task, item.item): item.correct for item in baseline.items}
    ours = [item for item in candidate.items if item.task in tasks]
    try:
        return [item.correct for item in ours], [theirs[item.task, item.item] for item in ours]
    except KeyError as error:
        raise BadInput(f"the baseline's report lacks item {error}", field="items") from error


def _row(baseline: EvalReport, task: str, paired: Paired) -> PairedComparison:
    return PairedComparison(
        baseline=baseline.reference(), task=task, difference=paired.difference, low=paired.low,
        high=paired.high, p_value=paired.p_value, test=paired.test,
    )  # fmt: skip
