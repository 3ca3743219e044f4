"""Stability: the same requests again and again, do the answers stay the same?  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from l4_mmodel.documents import StabilityRun

from .suite import StabilityPlan


def seeds(plan: StabilityPlan, seed: int) -> list[int]:
    """The seed of each repeat; at temperature 0 they make no difference, and are given all the same."""
    return [seed + number for number in range(plan.repeats)]


def summarise(
    plan: StabilityPlan,
    seed: int,
    answers: Mapping[str, Sequence[str | None]],
    correct: Mapping[str, Sequence[bool]],
) -> StabilityRun:
    """`answers` holds an item's answers, one a repeat, None for an error; `correct` where it can be told.

    `equal_answers` is the share of answers that are the most frequent one of their item.
    """
    total = sum(len(rows) for rows in answers.values())
    errors = sum(row is None for rows in answers.values() for row in rows)
    given = [[row for row in rows if row is not None] for rows in answers.values()]
    most = sum(Counter(rows).most_common(1)[0][1] for rows in given if rows)
    right = [float(np.mean(column)) for column in zip(*correct.values(), strict=True)] if correct else []
    return StabilityRun(
        repeats=plan.repeats,
        temperature=plan.temperature,
        seeds=seeds(plan, seed),
        equal_answers=most / (total - errors) if total > errors else 0.0,
        accuracy_stddev=float(np.std(right)) if len(right) > 1 else None,
        error_rate=errors / total if total else 0.0,
    )
