"""How often to save: what a save costs against what a failure throws away.

Young (CACM 17(9), 1974) gives the first order optimum sqrt(2 S M) for a stall of S seconds a save and a mean
time between failures of M seconds; Daly (FGCS 22(3), 2006) the higher order one.  Both S and M are measured:
M as the posterior mean of a Poisson process, so that a run without a failure so far still has a finite one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

HOUR = 3600.0
DAY = 24 * HOUR

REFERENCE_RATE = 1.97e-5 / HOUR
"""Failures an accelerator-second: 419 interruptions in 54 days on 16,384 H100 (arXiv 2407.21783, table 5)."""

_PRIOR_FAILURES = 1.0
"""How much evidence the reference rate counts for: as much as one failure seen."""


@dataclass(frozen=True, slots=True)
class FailureRate:
    """Failures seen in some accelerator-seconds of running.

    `reference`: failures an accelerator-second to believe before anything is seen.
    """

    failures: int
    accelerator_seconds: float
    reference: float = REFERENCE_RATE

    def __post_init__(self) -> None:
        if self.failures < 0 or self.accelerator_seconds < 0 or self.reference <= 0:
            raise ValueError("failures and seconds are not negative, and the reference rate is positive")

    @property
    def per_accelerator_second(self) -> float:
        """Posterior mean of the rate: a Gamma prior with the reference as its mean, Poisson failures."""
        before = _PRIOR_FAILURES / self.reference
        return (_PRIOR_FAILURES + self.failures) / (before + self.accelerator_seconds)

    def mean_time_between(self, accelerators: int) -> float:
        """Seconds between failures of a job on this many accelerators, any of which stops it."""
        if accelerators < 1:
            raise ValueError("a job has at least one accelerator")
        return 1.0 / (self.per_accelerator_second * accelerators)


def young_interval(stall: float, mean_time_between: float) -> float:
    """Seconds of computing between two saves, first order: sqrt(2 S M)."""
    _check(stall, mean_time_between)
    return math.sqrt(2 * stall * mean_time_between)


def daly_interval(stall: float, mean_time_between: float) -> float:
    """Seconds of computing between two saves, higher order; equal to M where a save costs more than M / 2."""
    _check(stall, mean_time_between)
    if stall >= mean_time_between / 2:
        return mean_time_between
    ratio = stall / (2 * mean_time_between)
    return young_interval(stall, mean_time_between) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - stall


def waste(interval: float, stall: float, mean_time_between: float, recovery: float = 0.0) -> float:
    """The share of time that is lost: to saving, to work done again, to recovering; at most 1.

    First order: S / T + (T / 2 + R) / M.
    """
    _check(stall, mean_time_between)
    if interval <= 0:
        raise ValueError("the interval is positive")
    return min(1.0, stall / interval + (interval / 2 + recovery) / mean_time_between)


@dataclass(frozen=True, slots=True)
class IntervalPlan:
    """When to save next, and why."""

    seconds: float
    steps: int
    waste: float
    mean_time_between: float
    reasons: tuple[str, ...]


def plan_interval(
    *,
    stall: float,
    step_time: float,
    accelerators: int,
    rate: FailureRate,
    recovery: float = 0.0,
    least_write: float = 0.0,
) -> IntervalPlan:
    """The interval by what was measured, in whole steps.

    `stall`: seconds a save stops training; `recovery`: seconds from a failure to the first new step;
    `least_write`: seconds the background write takes: a save must not begin before the last one is durable.
    """
    if step_time <= 0:
        raise ValueError("a step takes time")
    between = rate.mean_time_between(accelerators)
    best = daly_interval(max(stall, 1e-6), between)
    bounded = max(best, least_write, step_time)
    steps = max(1, round(bounded / step_time))
    seen = f"{rate.failures} failures in {rate.accelerator_seconds / HOUR:.0f} accelerator-hours"
    reasons = [
        f"{seen}: one in {between / HOUR:.2f} h on {accelerators} accelerators",
        f"a save stops training for {stall:.2f} s: best every {best:.0f} s (Daly)",
    ]
    if bounded > best:
        reasons.append(f"not before the last save is durable or a step is done: {bounded:.0f} s")
    return IntervalPlan(
        steps * step_time,
        steps,
        waste(steps * step_time, stall, between, recovery) if stall > 0 else 0.0,
        between,
        tuple(reasons),
    )


def _check(stall: float, mean_time_between: float) -> None:
    if stall <= 0 or mean_time_between <= 0:
        raise ValueError("stall and mean time between failures are positive seconds")
