"""Calibration: scores become probabilities that hold, measured on texts the classifier never learned from.

Isotonic regression takes any rising curve (pool adjacent violators); Platt scaling fits a logistic one with
two numbers and needs fewer examples (Platt 1999, with the targets and the Newton steps of Lin, Lin and Weng
2007).  `reliability` says how far stated and seen frequencies lie apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
Method = Literal["isotonic", "platt", "none"]

NEWTON_STEPS = 100
LEAST_LOGIT = 1e-12


@dataclass(frozen=True)
class Calibration:
    """A rising map from raw scores in [0, 1] to probabilities.

    `isotonic`: straight lines between the points (x, y).  `platt`: sigmoid(x[0] * logit(score) + y[0]).
    """

    method: Method = "none"
    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()

    def apply(self, scores: F64) -> F64:
        """Calibrated probabilities of raw scores."""
        if self.method == "isotonic":
            return np.interp(scores, self.x, self.y)
        if self.method == "platt":
            return _sigmoid(self.x[0] * logit(scores) + self.y[0])
        return scores


def fit(method: Method, scores: F64, truth: npt.NDArray[np.bool_]) -> Calibration:
    """The calibration that held-out scores and their truth ask for; none where only one class was seen."""
    if method == "none" or not len(scores) or truth.all() or not truth.any():
        return Calibration()
    return _isotonic(scores, truth) if method == "isotonic" else _platt(scores, truth)


def _isotonic(scores: F64, truth: npt.NDArray[np.bool_]) -> Calibration:
    """Pool adjacent violators over the distinct scores, weighted by how often each occurs."""
    x, place = np.unique(scores, return_inverse=True)
    weight = np.bincount(place).astype(np.float64)
    mean = np.bincount(place, truth.astype(np.float64)) / weight
    blocks: list[tuple[float, float, int]] = []  # mean, weight, first score
    for number in range(len(x)):
        value, size, first = float(mean[number]), float(weight[number]), number
        while blocks and blocks[-1][0] >= value:
            before, mass, first = blocks.pop()
            value, size = (before * mass + value * size) / (mass + size), mass + size
        blocks.append((value, size, first))
    ends = [first - 1 for _, _, first in blocks[1:]] + [len(x) - 1]
    points = [
        (float(x[place]), value)
        for (value, _, first), last in zip(blocks, ends, strict=True)
        for place in sorted({first, last})
    ]
    return Calibration("isotonic", tuple(a for a, _ in points), tuple(b for _, b in points))


def _platt(scores: F64, truth: npt.NDArray[np.bool_]) -> Calibration:
    good, bad = int(truth.sum()), int((~truth).sum())
    target = np.where(truth, (good + 1) / (good + 2), 1 / (bad + 2))
    features = np.stack([logit(scores), np.ones(len(scores))], 1)
    weights = np.array([1.0, 0.0])
    loss = _log_loss(features @ weights, target)
    for _ in range(NEWTON_STEPS):
        found = _sigmoid(features @ weights)
        slope = features.T @ (found - target)
        bend = features.T @ (features * (found * (1 - found))[:, None]) + 1e-9 * np.eye(2)
        step = np.linalg.solve(bend, slope)
        size = 1.0
        while size > 1e-6 and _log_loss(features @ (weights - size * step), target) > loss:
            size /= 2
        weights = weights - size * step
        before, loss = loss, _log_loss(features @ weights, target)
        if before - loss < 1e-10:
            break
    return Calibration("platt", (max(float(weights[0]), 0.0),), (float(weights[1]),))


def _log_loss(logits: F64, target: F64) -> float:
    return float(np.sum(np.logaddexp(0, logits) - target * logits))


def logit(scores: F64) -> F64:
    """The log odds of a probability, finite at 0 and 1."""
    bounded = np.clip(scores, LEAST_LOGIT, 1 - LEAST_LOGIT)
    odds: F64 = np.log(bounded / (1 - bounded))
    return odds


def _sigmoid(values: F64) -> F64:
    found: F64 = 1 / (1 + np.exp(-np.clip(values, -500, 500)))
    return found


def reliability(scores: F64, truth: npt.NDArray[np.bool_], bins: int = 10) -> dict[str, Any]:
    """How well probabilities hold: expected calibration error, Brier score, AUC and a row for each bin."""
    if not len(scores):
        return {"count": 0, "error": None, "brier": None, "auc": None, "bins": []}
    place = np.minimum((scores * bins).astype(np.int64), bins - 1)
    rows = []
    error = 0.0
    for number in range(bins):
        mine = place == number
        count = int(mine.sum())
        if count:
            stated, seen = float(scores[mine].mean()), float(truth[mine].mean())
            error += count / len(scores) * abs(stated - seen)
            rows.append(
                {
                    "from": number / bins,
                    "to": (number + 1) / bins,
                    "count": count,
                    "stated": round(stated, 4),
                    "seen": round(seen, 4),
                }
            )
    brier = float(np.mean((scores - truth) ** 2))
    return {
        "count": len(scores),
        "error": round(error, 5),
        "brier": round(brier, 5),
        "auc": auc(scores, truth),
        "bins": rows,
    }


def auc(scores: F64, truth: npt.NDArray[np.bool_]) -> float | None:
    """Area under the ROC curve, ties counted half; None where only one class was seen."""
    good, bad = int(truth.sum()), int((~truth).sum())
    if not good or not bad:
        return None
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    rank = np.cumsum(counts) - (counts - 1) / 2
    return round(float((rank[place][truth].sum() - good * (good + 1) / 2) / (good * bad)), 5)
