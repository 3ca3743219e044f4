"""Metering at work: the log of the pool's size, and usage as people ask for it."""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from l2_aistation._kit.problems import BadInput
from l2_aistation._kit.tokens import Principal
from l2_aistation.core import metering
from l2_aistation.core.metering import PER_HOUR, Dimension, PoolUsage, Stretch, Usage
from l2_aistation.core.pool import NodeFacts, Pool
from l2_aistation.store import Store
from l2_aistation.store import metering as stored
from l2_aistation.store.rows import dump

from .platform import Platform

COLUMNS = ("held_hours", "used_hours", "idle_hours", "idle_share", "jobs", "attempts")
"""Of a row of usage, after the dimension's own name."""

POOL_COLUMNS = (
    "model",
    "capacity_hours",
    "used_hours",
    "idle_hours",
    "out_of_service_hours",
    "free_hours",
    "idle_share",
)
DAY_S = 86_400.0
OVERLAP_S = 60.0
"""How far back ended attempts are looked at again: clocks are set back now and then."""


class CapacityLog:
    """Writes the pool's size down whenever it changes, in the transaction of the pass that changed it."""

    def __init__(self) -> None:
        self.last: tuple[object, ...] = ()

    def note(self, platform: Platform) -> None:
        """Looks for a change (microseconds where there is none) and adds it to the pass's batch.

        A service that has just started knows no node's state: until each has been heard of, or the time
        after which silence means loss is over, what was written before the restart goes on to hold.
        """
        pool = platform.world.pool
        away = ~pool.up | pool.cordoned
        free = pool.free_bits[away]
        now_is = (id(pool), away.tobytes(), free.tobytes())
        if now_is == self.last:
            return
        now = platform.clock()
        if not pool.up.all() and now - platform.started_at < platform.settings.node_lost_s:
            return
        self.last = now_is
        everywhere: NDArray[np.bool_] = np.ones(len(pool), dtype=np.bool_)
        platform.batch.capacity.append(
            {
                "at": now,
                "total": dump(_by_model(pool, pool.all_bits, everywhere)),
                "out_of_service": dump(_by_model(pool, pool.free_bits, away)),
            }
        )


def _by_model(pool: Pool, bits: NDArray[np.uint64], where: NDArray[np.bool_]) -> dict[str, int]:
    counts = {
        model: int(np.bitwise_count((bits & pool.bits_of(model))[where]).sum()) for model in pool.models
    }
    return {model: count for model, count in counts.items() if count}


@dataclass(frozen=True)
class Report:
    """Usage within a window by one dimension, and what became of the whole pool in it."""

    by: Dimension
    since: float
    until: float
    rows: list[Usage]
    pool: list[PoolUsage]
    pool_since: float | None

    def as_json(self, moment: Callable[[float | None], str | None]) -> dict[str, Any]:
        """The report in hours; `moment` writes times."""
        return {
            "by": self.by,
            "since": moment(self.since),
            "until": moment(self.until),
            "rows": [usage_row(row, self.by) for row in self.rows],
            "total": usage_row(self.total(), self.by),
            "pool_since": moment(self.pool_since),
            "pool": [pool_row(row) for row in self.pool],
        }

    def total(self) -> Usage:
        """The sum of the rows; a job that is in two rows (two models) counts in both."""
        total = Usage("")
        for row in self.rows:
            total.held += row.held
            total.used += row.used
            total.jobs += row.jobs
            total.attempts += row.attempts
        return total

    def as_csv(self) -> str:
        """The rows as CSV (RFC 4180) with one line of names."""
        text = io.StringIO()
        writer = csv.DictWriter(text, (self.by, *COLUMNS))
        writer.writeheader()
        writer.writerows(usage_row(row, self.by) for row in self.rows)
        return text.getvalue()


def usage_row(row: Usage, by: Dimension) -> dict[str, Any]:
    """A row in hours."""
    return {
        by: row.key,
        "held_hours": hours(row.held),
        "used_hours": hours(row.used),
        "idle_hours": hours(row.idle),
        "idle_share": round(row.idle_share, 4),
        "jobs": row.jobs,
        "attempts": row.attempts,
    }


def pool_row(row: PoolUsage) -> dict[str, Any]:
    """A model's part of the pool in hours."""
    return {
        "model": row.model,
        "capacity_hours": hours(row.capacity),
        "used_hours": hours(row.used),
        "idle_hours": hours(row.idle),
        "out_of_service_hours": hours(row.out_of_service),
        "free_hours": hours(row.free),
        "idle_share": round(row.idle_share, 4),
    }


def hours(amount: int) -> float:
    """Accelerator-hours of an amount of the core, to the millionth."""
    return round(amount / PER_HOUR, 6)


class Metering:
    """Usage from the store.  Reads only; any thread may ask."""

    def __init__(self, store: Store, platform: Platform) -> None:
        self.store = store
        self.platform = platform

    def report(self, who: Principal, by: Dimension, since: float | None, until: float | None) -> Report:
        """Usage by one dimension within [since, until); the last day by default.

        A tenant's report holds its own rows; the pool's size is everybody's to see.
        """
        now = self.platform.clock()
        until = now if until is None else min(until, now)
        since = max(until - DAY_S if since is None else since, 0.0)
        if since >= until:
            raise BadInput("the window is empty", field="since", do="give a --since before --until and now")
        found = list(self.stretches(since, until, who.scope()))
        log = stored.capacities(self.store, since, until)
        everyone = found if who.scope() is None else list(self.stretches(since, until, None))
        return Report(
            by=by,
            since=since,
            until=until,
            rows=metering.usage(found, by, since, until),
            pool=metering.pool_usage(everyone, log, since, until),
            pool_since=max(since, log[0].at) if log else None,
        )

    def shares(self, seconds: float, points: int) -> dict[str, Any]:
        """Accelerators held by each queue over the last `seconds`: means of at most `points` bins.

        From when the pool's size is known: before that there was no pool.
        """
        now = self.platform.clock()
        log = stored.capacities(self.store, now - seconds, now)
        since = max(now - seconds, log[0].at if log else now - 1.0)
        since = min(since, now - 1.0)
        points = max(min(points, int(now - since)), 2)
        edges = [since + (now - since) * number / points for number in range(points + 1)]
        found = self.stretches(since, now, None)
        capacity = [metering.capacity_at(log, edge) for edge in edges[1:]]
        return {
            "at": [round(edge, 1) for edge in edges[1:]],
            "held": metering.series(found, "queue", edges, now),
            "capacity": [None if one is None else sum(one.total.values()) for one in capacity],
        }

    def stretches(self, since: float, until: float, tenant: str | None) -> Iterator[Stretch]:
        """What was held within a window, by a tenant or by all."""
        return stored.stretches(self.store, since, until, tenant=tenant, node=self._node)

    def _node(self, name: str) -> NodeFacts:
        return self.platform.node(name)


class UsageTotals:
    """All that was ever held, by tenant, queue and model, for counters that only grow.

    `refresh` reads what ended since it was last called, and what still holds; the first call reads the
    whole history.
    """

    def __init__(self, metering: Metering) -> None:
        self.metering = metering
        self.lock = threading.Lock()
        self.ended: dict[tuple[str, str, str], list[int]] = {}
        self.counted: dict[tuple[str, int], float] = {}
        self.watermark = -1.0
        self.totals: dict[tuple[str, str, str], tuple[float, float]] = {}

    def refresh(self) -> None:
        """Brings `totals` up to now: (held, idle while held) in accelerator-seconds."""
        with self.lock:
            now = self.metering.platform.clock()
            live: dict[tuple[str, str, str], list[int]] = {}
            for stretch in self.metering.stretches(self.watermark, now, None):
                name = stretch.job, stretch.attempt
                if stretch.end is None:
                    _add(live, stretch, now)
                elif name not in self.counted and stretch.end > self.watermark:
                    self.counted[name] = stretch.end
                    _add(self.ended, stretch, stretch.end)
            self.watermark = now - OVERLAP_S
            self.counted = {name: end for name, end in self.counted.items() if end > self.watermark}
            sums = {key: list(amounts) for key, amounts in self.ended.items()}
            for key, (held, idle) in live.items():
                total = sums.setdefault(key, [0, 0])
                total[0] += held
                total[1] += idle
            self.totals = {key: (held / 1e6, idle / 1e6) for key, (held, idle) in sums.items()}


def _add(to: dict[tuple[str, str, str], list[int]], stretch: Stretch, until: float) -> None:
    for model, held, used in metering.parts(stretch, until):
        total = to.setdefault((stretch.tenant, stretch.queue, model), [0, 0])
        total[0] += held
        total[1] += held - used


def parse_time(text: str, field: str, now: float) -> float:
    """Seconds since the epoch of RFC 3339, a date, or a span back from now such as 90m, 12h or 7d."""
    from datetime import UTC, datetime

    units = {"s": 1, "m": 60, "h": 3600, "d": DAY_S, "w": 7 * DAY_S}
    try:
        if text[-1:] in units and text[:-1].replace(".", "", 1).isdigit():
            return now - float(text[:-1]) * units[text[-1]]
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(
            f"{text!r} is no time", field=field, do="write 2026-12-01, 2026-12-01T08:00:00Z, 12h or 7d"
        ) from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
