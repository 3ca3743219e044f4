"""Intervals and paired tests, each with its source.  Pure; randomness comes from a given seed.

Wilson 1927 (score interval); McNemar 1947, exact form (binomial on the discordant pairs);
percentile bootstrap, Efron 1979; Miller 2024, "Adding error bars to evals" (clustered errors).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RESAMPLES = 2000
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval."""

    value: float
    low: float
    high: float
    method: str


@dataclass(frozen=True)
class Paired:
    """A difference (candidate − baseline) over the same items, with its interval and p-value."""

    difference: float
    low: float
    high: float
    p_value: float
    test: str


def normal_quantile(confidence: float) -> float:
    """The two-sided quantile of the normal distribution."""
    from statistics import NormalDist

    return float(NormalDist().inv_cdf(0.5 + confidence / 2))


def wilson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """The score interval of a proportion; of no items, everything is possible."""
    if n == 0:
        return Interval(0.0, 0.0, 1.0, "wilson")
    z = normal_quantile(confidence)
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return Interval(share, low, high, "wilson")


def standard_error(values: Sequence[float], clusters: Sequence[str] | None = None) -> float:
    """Standard error of a mean; with `clusters`, items of one cluster count as dependent."""
    data = np.asarray(values, dtype=float)
    n = len(data)
    if n < 2:
        return 0.0
    rest = data - data.mean()
    if clusters is None:
        return float(np.sqrt((rest**2).sum() / (n - 1) / n))
    sums: dict[str, float] = {}
    for cluster, value in zip(clusters, rest, strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + float(value)
    return math.sqrt(sum(value * value for value in sums.values())) / n


def bootstrap(values: Sequence[float], *, seed: int, confidence: float = 0.95) -> Interval:
    """The percentile bootstrap interval of a mean."""
    data = np.asarray(values, dtype=float)
    if len(data) == 0:
        return Interval(0.0, 0.0, 0.0, "bootstrap")
    means = _resampled_means(data, seed)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(data.mean()), float(low), float(high), "bootstrap")


def _resampled_means(data: Numbers, seed: int) -> Numbers:
    draws = np.random.default_rng(seed).integers(0, len(data), (RESAMPLES, len(data)))
    means: Numbers = data[draws].mean(axis=1)
    return means


def mcnemar(candidate: Sequence[bool], baseline: Sequence[bool]) -> float:
    """The exact two-sided p-value: are the items that only one gets right shared out evenly?"""
    gained = sum(a and not b for a, b in zip(candidate, baseline, strict=True))
    lost = sum(b and not a for a, b in zip(candidate, baseline, strict=True))
    n, k = gained + lost, min(gained, lost)
    if n == 0:
        return 1.0
    tail = sum(math.comb(n, i) for i in range(k + 1)) / (1 << n)
    return min(1.0, 2 * tail)


def compare_correct(
    candidate: Sequence[bool], baseline: Sequence[bool], *, seed: int, confidence: float = 0.95
) -> Paired:
    """Accuracy difference over the same items: McNemar's test, interval by paired bootstrap."""
    difference = np.asarray(candidate, dtype=float) - np.asarray(baseline, dtype=float)
    interval = bootstrap(difference.tolist(), seed=seed, confidence=confidence)
    p_value = mcnemar(candidate, baseline)
    return Paired(interval.value, interval.low, interval.high, p_value, "mcnemar-exact")


def compare_values(
    candidate: Sequence[float], baseline: Sequence[float], *, seed: int, confidence: float = 0.95
) -> Paired:
    """Difference of means over the same items; p by the sign-flip permutation test."""
    difference = np.asarray(candidate, dtype=float) - np.asarray(baseline, dtype=float)
    interval = bootstrap(difference.tolist(), seed=seed, confidence=confidence)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (RESAMPLES, len(difference)))
    extreme = np.abs((signs * difference).mean(axis=1)) >= abs(difference.mean()) - 1e-12
    p_value = (1 + int(extreme.sum())) / (RESAMPLES + 1)
    return Paired(interval.value, interval.low, interval.high, p_value, "paired-permutation")


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie (nearest rank above, as load tools report)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def smallest_detectable(n: int, discordant: float, *, power: float = 0.8, confidence: float = 0.95) -> float:
    """The accuracy difference that `n` paired items reveal with `power`, at a share of discordant items."""
    if n == 0:
        return 1.0
    z = normal_quantile(confidence) + normal_quantile(2 * power - 1)
    return min(1.0, z * math.sqrt(discordant / n))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for being many (Holm 1979), in the order given."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected
