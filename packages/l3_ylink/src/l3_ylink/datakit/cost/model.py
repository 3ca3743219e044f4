"""From a run's own rates to a cluster: bytes in, core-hours, hours and bytes out, each with an interval.

    core-hours = B * sum(local rates) + B * global rate * (B / B_run)^(g - 1)
    hours      = local core-hours / P + global core-hours / (P * e(P))

Local steps look at one document: their cost is in proportion to the bytes B and to nothing else.  Global
stages (duplicates) compare documents: g lies between 1 and the exponent fitted to data-juicer's published
table, and e(P) is the loss that the table shows for each doubling of cores beyond the 640 where it begins.
The spread of the rates is that of the run's blocks (bootstrap over blocks, 95 %).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .published import DATA_JUICER_MINHASH, DOUBLING, Published

SAMPLES = 2_000
SEED = 20261130
PUBLISHED_CORES = 640
LEAST_BYTES = 50e6
"""A run over less says little about a large one."""
Floats = npt.NDArray[np.float64]


class Interval(NamedTuple):
    """An estimate and the 95 % interval around it."""

    estimate: float
    low: float
    high: float

    def scaled(self, low: float, high: float | None = None, middle: float | None = None) -> Interval:
        """Multiplied by a factor that itself has a low and a high value."""
        high = low if high is None else high
        middle = low if middle is None else middle
        return Interval(self.estimate * middle, self.low * low, self.high * high)

    def __add__(self, other: object) -> Interval:
        if not isinstance(other, Interval):
            return NotImplemented
        return Interval(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Rates:
    """What a run measured, by block: input bytes, text bytes, CPU seconds by step, kept text bytes."""

    input_bytes: Floats
    text_bytes: Floats
    kept_bytes: Floats
    seconds: dict[str, Floats]
    export_seconds: dict[str, float]
    """Stages that write what was kept: CPU seconds in all."""
    global_seconds: dict[str, float]
    """Stages over all documents at once (decisions, duplicates): CPU seconds in all."""
    whole_bytes: float
    """Input bytes of the run; the blocks above may be a part of it."""

    def per_byte(self, values: Floats) -> Interval:
        """A sum over blocks divided by the input bytes, its interval by bootstrap over blocks."""
        return ratio(values, self.input_bytes)


def ratio(top: Floats, bottom: Floats) -> Interval:
    """sum(top) / sum(bottom) with the interval of a bootstrap over the entries."""
    middle = float(top.sum() / bottom.sum())
    if len(top) < 2:
        return Interval(middle, middle, middle)
    rng = np.random.default_rng(SEED)
    chosen = rng.integers(0, len(top), (SAMPLES, len(top)))
    found = top[chosen].sum(axis=1) / bottom[chosen].sum(axis=1)
    low, high = np.quantile(found, (0.025, 0.975))
    return Interval(middle, min(middle, float(low)), max(middle, float(high)))


class StepCost(NamedTuple):
    """One step's share of an estimate."""

    step: str
    seconds_per_gb: Interval
    core_hours: Interval
    scales: str


@dataclass(frozen=True)
class Estimate:
    """What a recipe would cost on `cores` cores for `input_bytes`."""

    input_bytes: float
    cores: int
    text_bytes: Interval
    output_bytes: Interval
    core_hours: Interval
    hours: Interval
    megabytes_per_core_second: Interval
    steps: list[StepCost]
    measured_bytes: float

    @property
    def warning(self) -> str:
        """What to doubt in the estimate; empty where nothing."""
        if self.measured_bytes >= LEAST_BYTES:
            return ""
        return (
            f"the run read only {self.measured_bytes / 1e6:.1f} MB: what it costs to begin weighs more than "
            f"what a byte costs; measure at least {LEAST_BYTES / 1e6:.0f} MB"
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values; intervals as {estimate, low, high}."""
        intervals = ("text_bytes", "output_bytes", "core_hours", "hours", "megabytes_per_core_second")
        return {
            "input_bytes": self.input_bytes,
            "cores": self.cores,
            "measured_bytes": self.measured_bytes,
            "warning": self.warning,
            **{name: getattr(self, name)._asdict() for name in intervals},
            "steps": [
                {
                    "step": step.step,
                    "scales": step.scales,
                    "seconds_per_gb": step.seconds_per_gb._asdict(),
                    "core_hours": step.core_hours._asdict(),
                }
                for step in self.steps
            ],
        }


def exponents() -> tuple[float, float, float]:
    """How global work grows with the data: at best, between, and as fitted to the published table."""
    fitted = fit(DATA_JUICER_MINHASH).growth
    return 1.0, (1 + fitted) / 2, fitted


def estimate(rates: Rates, input_bytes: float, cores: int) -> Estimate:
    """The cost of the same recipe over `input_bytes` of like documents on `cores` cores."""
    whole = rates.whole_bytes
    steps = []
    local = shared = Interval(0, 0, 0)
    for name, seconds in rates.seconds.items():
        rate = rates.per_byte(seconds)
        hours = rate.scaled(input_bytes / 3600)
        local += hours
        steps.append(StepCost(name, rate.scaled(1e9), hours, "with the bytes"))
    for name, total in rates.export_seconds.items():
        rate = Interval(*([total / whole] * 3))
        local += rate.scaled(input_bytes / 3600)
        steps.append(StepCost(name, rate.scaled(1e9), rate.scaled(input_bytes / 3600), "with the bytes"))
    low, middle, high = (max(input_bytes / whole, 1e-9) ** (g - 1) for g in exponents())
    if input_bytes < whole:
        low, high = high, low
    for name, total in rates.global_seconds.items():
        rate = Interval(*([total / whole] * 3))
        hours = rate.scaled(low, high, middle).scaled(input_bytes / 3600)
        shared += hours
        steps.append(StepCost(name, rate.scaled(1e9), hours, "with the bytes and the pairs among them"))
    best, between, worst = (factor / cores for factor in loss(cores))
    hours = local.scaled(1 / cores) + shared.scaled(best, worst, between)
    both = local + shared
    speed = [input_bytes / 1e6 / (value * 3600) if value else math.inf for value in both]
    return Estimate(
        input_bytes=input_bytes,
        cores=cores,
        text_bytes=rates.per_byte(rates.text_bytes).scaled(input_bytes),
        output_bytes=rates.per_byte(rates.kept_bytes).scaled(input_bytes),
        core_hours=both,
        hours=hours,
        megabytes_per_core_second=Interval(speed[0], speed[2], speed[1]),
        steps=steps,
        measured_bytes=whole,
    )


def loss(cores: int) -> tuple[float, float, float]:
    """How many times as long global work takes as it would without loss: at best, as fitted, at worst."""
    doublings = max(0.0, math.log2(cores / PUBLISHED_CORES))
    fitted = 2 ** (1 - fit(DATA_JUICER_MINHASH).sharing)
    return 1.0, fitted**doublings, (2 * DOUBLING[1]) ** doublings


@dataclass(frozen=True)
class Law:
    """minutes = start + factor * bytes^growth / cores^sharing."""

    start: float
    factor: float
    growth: float
    sharing: float
    worst_error: float

    def minutes(self, count: float, cores: int) -> float:
        """The time for `count` bytes."""
        return float(self.start + self.factor * count**self.growth / cores**self.sharing)


def fit(table: Sequence[Published]) -> Law:
    """The law that fits a published table best (least squares of the logarithms, start by search)."""
    count = np.array([math.log(row.bytes) for row in table])
    cores = np.array([math.log(row.cores) for row in table])
    minutes = np.array([row.minutes for row in table])
    matrix = np.stack([np.ones(len(table)), count, -cores], axis=1)
    best: tuple[float, Law] | None = None
    for start in np.arange(0, float(minutes.min()), 0.05):
        aim = np.log(minutes - start)
        (factor, growth, sharing), *_ = np.linalg.lstsq(matrix, aim, rcond=None)
        law = Law(float(start), math.exp(factor), float(growth), float(sharing), 0.0)
        errors = np.array([law.minutes(row.bytes, row.cores) / row.minutes - 1 for row in table])
        score = float((errors**2).sum())
        if best is None or score < best[0]:
            best = score, replace(law, worst_error=float(np.abs(errors).max()))
    assert best is not None
    return best[1]
