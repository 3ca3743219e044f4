"""Agreement of two labellers: Cohen's kappa, weighted for labels in an order, and the confusion table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def confusion(first: Sequence[str], second: Sequence[str], labels: Sequence[str]) -> npt.NDArray[np.int64]:
    """Counts by the first labeller's label (rows) and the second's (columns)."""
    number = {label: place for place, label in enumerate(labels)}
    table = np.zeros((len(labels), len(labels)), np.int64)
    for one, other in zip(first, second, strict=True):
        table[number[one], number[other]] += 1
    return table


def kappa(table: npt.NDArray[np.int64], weights: str = "none") -> float | None:
    """Cohen's kappa (1960) of a confusion table: 1 is perfect, 0 is chance; None where chance explains all.

    `weights`: "none", or "quadratic" for labels in an order: a miss by two counts four times one by one
    (Cohen 1968).
    """
    size, total = len(table), table.sum()
    place = np.arange(size)
    miss = (place[:, None] - place[None, :]) ** 2 if weights == "quadratic" else 1 - np.eye(size)
    chance = np.outer(table.sum(1), table.sum(0)) / max(total, 1)
    expected = float((miss * chance).sum())
    return None if expected == 0 else round(1 - float((miss * table).sum()) / expected, 5)


def agreement(first: Sequence[str], second: Sequence[str], labels: Sequence[str]) -> dict[str, Any]:
    """The report: share of equal labels, kappa plain and weighted, confusion, recall and precision a label.

    `labels` are in order where they have one; the first labeller counts as the truth.
    """
    table = confusion(first, second, labels)
    total = int(table.sum())
    rows = [
        {
            "label": label,
            "count": int(table[place].sum()),
            "recall": _share(table[place, place], table[place].sum()),
            "precision": _share(table[place, place], table[:, place].sum()),
        }
        for place, label in enumerate(labels)
    ]
    return {
        "count": total,
        "equal": _share(np.trace(table), total),
        "kappa": kappa(table),
        "kappa_quadratic": kappa(table, "quadratic"),
        "labels": rows,
        "confusion": table.tolist(),
    }


def _share(part: Any, whole: Any) -> float | None:
    return round(float(part) / float(whole), 5) if whole else None
