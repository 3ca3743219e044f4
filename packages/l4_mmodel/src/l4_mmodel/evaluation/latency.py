"""Latency as a user feels it: time to first token, between tokens, to the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import numpy as np

from l4_mmodel.documents import LatencySummary

from .statistics import percentile
from .suite import LatencyPlan


@dataclass(frozen=True)
class Timing:
    """One request, in seconds; `tokens` is what the runtime counted, `chunks` what arrived.

    The time between tokens is (end − first) / (tokens − 1): by token, not by chunk.
    """

    first_s: float
    total_s: float
    tokens: int
    chunks: int

    @property
    def between_s(self) -> float | None:
        """Mean time between two tokens; None where there are fewer than two."""
        return (self.total_s - self.first_s) / (self.tokens - 1) if self.tokens > 1 else None


def arrivals(plan: LatencyPlan, seed: int) -> list[float]:
    """When each request is due, in seconds from the start: Poisson at a rate, else all at once."""
    if plan.rate_per_s is None:
        return [0.0] * plan.requests
    gaps = np.random.default_rng(seed).exponential(1 / plan.rate_per_s, plan.requests)
    return [float(value) for value in np.cumsum(gaps)]


async def measure(
    plan: LatencyPlan,
    numbers: Sequence[int],
    send: Callable[[int], Awaitable[Timing]],
    keep: Callable[[int, Timing], None],
    *,
    seed: int,
) -> None:
    """Sends the requests of `numbers`; open loop where the plan has a rate, else `concurrency` at a time."""
    due = arrivals(plan, seed)
    gate = asyncio.Semaphore(plan.concurrency if plan.rate_per_s is None else plan.requests)
    start = time.perf_counter() - (due[numbers[0]] if numbers else 0)

    async def one(number: int) -> None:
        await asyncio.sleep(max(0, start + due[number] - time.perf_counter()))
        async with gate:
            keep(number, await send(number))

    async with asyncio.TaskGroup() as group:
        for number in numbers:
            group.create_task(one(number))


def summarise(timings: Sequence[Timing]) -> list[LatencySummary]:
    """Percentiles of time to first token, between tokens, and of the whole request."""
    if not timings:
        return []
    spent = sum(timing.total_s for timing in timings)
    rate = sum(timing.tokens for timing in timings) / spent if spent else None
    between = [timing.between_s for timing in timings if timing.between_s is not None]
    rows = [
        _summary("time_to_first_token", [timing.first_s for timing in timings], None),
        _summary("request", [timing.total_s for timing in timings], rate),
    ]
    if between:
        rows.insert(1, _summary("inter_token", between, None))
    return rows


def _summary(name: str, seconds: Sequence[float], rate: float | None) -> LatencySummary:
    def at(share: float) -> float:
        return round(percentile(seconds, share) * 1000, 3)

    mean = round(sum(seconds) / len(seconds) * 1000, 3)
    return LatencySummary(
        name=name, requests=len(seconds), p50_ms=at(0.5), p90_ms=at(0.9), p99_ms=at(0.99), mean_ms=mean,
        tokens_per_s=None if rate is None else round(rate, 2),
    )  # fmt: skip
