"""Who held how many accelerators for how long, and how much of that was idle.

Nothing is counted while it happens.  An attempt's row says what it held, from when to when; the
capacity log says how large the pool was.  Usage is what those intervals say when they are cut to the
asked window, so that it is the same after a kill -9 as without, and any two windows that touch add up.

Of one accelerator's time in the pool, each moment is exactly one of:

- **used**: held by an attempt, and its ranks ran: from the moment when all of them had started to the
  fault, the stop or the end.  A job that reports steps and then met a fault is taken at its word:
  after its last step it did nothing.
- **idle while held**: held by an attempt outside of that: starting, hung, held after a fault, stopping.
- **out of service**: held by nobody, on a node that is lost or cordoned.
- **free**: held by nobody, on a node that could take a job.

The idle share of a tenant, queue, user or job is (idle while held) / (used + idle while held); that of
the pool is (all but used) / capacity.

Sums are integers, thousandths of an accelerator times milliseconds, so that they are exact in any
order: rows of one dimension add up to the same as rows of another.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from .pool import NodeFacts, Slot

Dimension = Literal["tenant", "queue", "user", "model"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
PER_HOUR = 1000 * 3_600_000
"""Thousandths of an accelerator times milliseconds in an accelerator-hour."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """An attempt's hold.  Times in seconds; `end` None: it still holds; `held`: accelerators by model.

    `run_from` and `run_until` bound the time in which its ranks ran; None: not yet, no bound yet.
    """

    job: str
    attempt: int
    tenant: str
    queue: str
    user: str
    held: Mapping[str, float]
    start: float
    end: float | None = None
    run_from: float | None = None
    run_until: float | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """The pool from a moment on: accelerators by model, and how many of them are out of service."""

    at: float
    total: Mapping[str, float]
    out_of_service: Mapping[str, float]


@dataclass(slots=True)
class Usage:
    """What one tenant, queue, user or model held; `held` = `used` + `idle`."""

    key: str
    held: int = 0
    used: int = 0
    jobs: int = 0
    attempts: int = 0

    @property
    def idle(self) -> int:
        """Held and not used."""
        return self.held - self.used

    @property
    def idle_share(self) -> float:
        """Of what was held; 0 where nothing was."""
        return self.idle / self.held if self.held else 0.0


@dataclass(slots=True)
class PoolUsage:
    """What became of the accelerators of one model; the four parts add up to `capacity`."""

    model: str
    capacity: int = 0
    held: int = 0
    used: int = 0
    out_of_service: int = 0

    @property
    def idle(self) -> int:
        """Held and not used."""
        return self.held - self.used

    @property
    def free(self) -> int:
        """Held by nobody, though a job could have had it."""
        return max(self.capacity - self.held - self.out_of_service, 0)

    @property
    def idle_share(self) -> float:
        """All but used, of the capacity."""
        return max(self.capacity - self.used, 0) / self.capacity if self.capacity else 0.0


def settled(stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    """The same stretches, none longer than to the job's next attempt: no accelerator counts twice.

    Takes the attempts of a job one after the other, in their order.
    """
    before: Stretch | None = None
    for stretch in stretches:
        if before is not None:
            follows = before.job == stretch.job
            yield _cut(before, stretch.start) if follows else before
        before = stretch
    if before is not None:
        yield before


def _cut(stretch: Stretch, end: float) -> Stretch:
    if stretch.end is not None and stretch.end <= end:
        return stretch
    return Stretch(
        stretch.job,
        stretch.attempt,
        stretch.tenant,
        stretch.queue,
        stretch.user,
        stretch.held,
        stretch.start,
        end,
        stretch.run_from,
        stretch.run_until,
    )


def usage(stretches: Iterable[Stretch], by: Dimension, since: float, until: float) -> list[Usage]:
    """Usage within [since, until) by one dimension, the largest first.  Takes `settled` stretches."""
    rows: dict[str, Usage] = {}
    jobs: dict[str, set[str]] = defaultdict(set)
    window = _ms(since), _ms(until)
    for stretch in stretches:
        held_ms, used_ms = _inside(stretch, window)
        if held_ms <= 0:
            continue
        for key, milli in _keys(stretch, by):
            row = rows.setdefault(key, Usage(key))
            row.held += held_ms * milli
            row.used += used_ms * milli
            row.attempts += 1
            jobs[key].add(stretch.job)
    for key, row in rows.items():
        row.jobs = len(jobs[key])
    return sorted(rows.values(), key=lambda row: (-row.held, row.key))


def pool_usage(
    stretches: Iterable[Stretch], log: Sequence[Capacity], since: float, until: float
) -> list[PoolUsage]:
    """What became of each model's accelerators within [since, until), as far as the log reaches back.

    Takes `settled` stretches and the capacity log in the order of its times.
    """
    if not log:
        return []
    known = max(since, log[0].at)
    rows: dict[str, PoolUsage] = {}
    for number, entry in enumerate(log):
        end = log[number + 1].at if number + 1 < len(log) else until
        length = min(_ms(end), _ms(until)) - max(_ms(entry.at), _ms(known))
        if length <= 0:
            continue
        for model, count in entry.total.items():
            row = rows.setdefault(model, PoolUsage(model))
            row.capacity += length * _milli(count)
            row.out_of_service += length * _milli(entry.out_of_service.get(model, 0))
    window = _ms(known), _ms(until)
    for stretch in stretches:
        held_ms, used_ms = _inside(stretch, window)
        if held_ms <= 0:
            continue
        for model, milli in _keys(stretch, "model"):
            row = rows.setdefault(model, PoolUsage(model))
            row.held += held_ms * milli
            row.used += used_ms * milli
    return sorted(rows.values(), key=lambda row: (-row.capacity, row.model))


def capacity_at(log: Sequence[Capacity], at: float) -> Capacity | None:
    """The pool at a moment; None before the log begins."""
    number = bisect_right(log, at, key=lambda entry: entry.at)
    return log[number - 1] if number else None


def series(
    stretches: Iterable[Stretch], by: Dimension, edges: Sequence[float], now: float
) -> dict[str, list[float]]:
    """Accelerators held over time: the mean between each two neighbouring edges, by one dimension.

    A mean, not a sample: width times mean, summed over the bins, is what `usage` says of the window.
    """
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for stretch in stretches:
        start, end = max(stretch.start, edges[0]), min(_end(stretch, now), edges[-1])
        if end <= start:
            continue
        for key, milli in _keys(stretch, by):
            points[key] += [(start, milli / 1000), (end, -milli / 1000)]
    return {key: _means(changes, edges) for key, changes in points.items()}


def _means(changes: list[tuple[float, float]], edges: Sequence[float]) -> list[float]:
    """The means of a step function, given as its changes, between edges."""
    table = np.array(sorted(changes))
    times, level = table[:, 0], np.cumsum(table[:, 1])
    integral = np.concatenate(([0.0], np.cumsum(level[:-1] * np.diff(times))))
    at = np.interp(np.asarray(edges), times, integral, left=0.0)
    means = np.diff(at) / np.diff(np.asarray(edges))
    return [round(max(float(value), 0.0), 4) for value in means]


def parts(stretch: Stretch, until: float) -> Iterator[tuple[str, int, int]]:
    """All that a stretch held up to a moment: model, held, used."""
    held_ms, used_ms = _inside(stretch, (_ms(stretch.start), _ms(until)))
    if held_ms > 0:
        for model, milli in _keys(stretch, "model"):
            yield model, held_ms * milli, used_ms * milli


def _keys(stretch: Stretch, by: Dimension) -> Iterator[tuple[str, int]]:
    if by == "model":
        for model, count in stretch.held.items():
            yield model, _milli(count)
        return
    key = {"tenant": stretch.tenant, "queue": stretch.queue, "user": stretch.user}[by]
    yield key, sum(_milli(count) for count in stretch.held.values())


def _inside(stretch: Stretch, window: tuple[int, int]) -> tuple[int, int]:
    """Milliseconds held, and used, of a stretch within a window."""
    start = max(_ms(stretch.start), window[0])
    end = window[1] if stretch.end is None else min(_ms(stretch.end), window[1])
    if end <= start or stretch.run_from is None:
        return end - start, 0
    run_until = end if stretch.run_until is None else min(_ms(stretch.run_until), end)
    return end - start, max(run_until - max(_ms(stretch.run_from), start), 0)


def _end(stretch: Stretch, now: float) -> float:
    return now if stretch.end is None else stretch.end


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _milli(count: float) -> int:
    return round(count * 1000)


def held_by_model(slots: Iterable[Slot], node: Callable[[str], NodeFacts]) -> dict[str, float]:
    """Accelerators by model that the slots of an attempt hold.

    A part of one counts as its share, or as its part of the memory where that is more.
    """
    held: dict[str, int] = defaultdict(int)
    for slot in slots:
        if not slot.accelerators:
            continue
        devices = node(slot.node).accelerators
        if slot.accelerator_milli or slot.accelerator_bytes:
            device = devices[slot.accelerators[0]]
            memory = slot.accelerator_bytes / device.memory_bytes if device.memory_bytes else 0.0
            held[device.model] += max(slot.accelerator_milli, round(memory * 1000))
            continue
        for place in slot.accelerators:
            held[devices[place].model] += 1000
    return {model: milli / 1000 for model, milli in sorted(held.items())}
