"""Decisions: the steps look at the stored columns, in order, and each document is kept or dropped."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from l3_ylink.documents import StepCount

from .documents.columns import array, numbers_or_null, strings
from .documents.store import Signals, write_whole
from .recipe import Recipe
from .steps.base import KEPT, Table, Verdicts


@dataclass
class Decisions:
    """What each document's fate is, and the funnel: what each step saw, kept and dropped."""

    verdicts: Verdicts
    funnel: list[StepCount]

    @property
    def kept(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Rows that stay."""
        return np.flatnonzero(self.verdicts.step == KEPT)


def decide(recipe: Recipe, signals: Signals) -> Decisions:
    """Applies the recipe's steps to the stored columns."""
    table = Table(signals.columns, signals.texts)
    verdicts = Verdicts(len(table))
    funnel = []
    for number, step in enumerate(recipe.steps):
        verdicts.number = number
        seen = int(verdicts.alive.sum())
        step.decide(table, verdicts)
        mine = np.flatnonzero(verdicts.step == number)
        reasons = Counter(verdicts.reason[row] for row in mine.tolist())
        funnel.append(
            StepCount(
                step=step.step,
                seen=seen,
                kept=seen - len(mine),
                dropped=dict(sorted(reasons.items())),
                changed=step.changed(table),
            )
        )
    return Decisions(verdicts, funnel)


def write_decisions(path: Path, recipe: Recipe, signals: Signals, decisions: Decisions) -> None:
    """One row a document: kept or not, the step, the rule, the value, the bound, the twin that stayed."""
    verdicts = decisions.verdicts
    ids = signals.columns["id"]
    steps = [step.step for step in recipe.steps]
    by = [None if number == KEPT else steps[number] for number in verdicts.step.tolist()]
    columns = {
        "id": strings(ids),
        "kept": array(verdicts.step == KEPT),
        "step": strings(by),
        "reason": strings([reason or None for reason in verdicts.reason]),
        "value": numbers_or_null(verdicts.value),
        "threshold": numbers_or_null(verdicts.threshold),
        "other": strings([None if row < 0 else ids[row] for row in verdicts.other.tolist()]),
    }
    table = pa.Table.from_arrays(list(columns.values()), names=list(columns))
    write_whole(path, lambda neighbour: pq.write_table(table, neighbour, compression="zstd"))
