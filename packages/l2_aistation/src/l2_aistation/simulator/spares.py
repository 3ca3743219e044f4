"""Failure, repair and spares of one long job: how many spares, which checkpoint interval, what goodput.

A discrete event simulation (simpy) of a gang that needs all of its nodes.  Nodes fail as a Poisson process;
a failed one is repaired (log-normal times, as hardware repairs are) and comes back as a spare.  With a
spare at hand the gang goes on after detection, replacement and loading; without one it waits for a repair.
What was computed since the last checkpoint is done again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable
from dataclasses import asdict, dataclass
from statistics import NormalDist, fmean, stdev
from typing import Any

import numpy as np
import simpy

from l2_aistation._kit.problems import BadInput
from l2_aistation.core.reliability import daly_interval

HOUR = 3600.0
DAY = 24 * HOUR
_REPAIR_SIGMA = 1.0
"""Spread of log repair times: a few take days."""

_ENOUGH = 0.002
"""A further spare that gains less goodput than this is not worth a node."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """A job and the cluster under it; times in seconds.

    `failures_per_node_day` is what stops the job; `recovery` goes from the failure to the first new step
    with a spare at hand; `stall` is what a checkpoint stops training for; `interval` is the time between
    checkpoints (None: Daly's optimum); `repair` the mean time until a failed node is a spare again.
    """

    nodes: int
    failures_per_node_day: float
    repair: float = DAY
    recovery: float = 300.0
    stall: float = 2.0
    interval: float | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and not (math.isfinite(value) and value > 0):
                raise BadInput("must be positive", field=name, do="give a number above 0")

    @property
    def mean_time_between(self) -> float:
        """Seconds between failures of the job."""
        return DAY / (self.nodes * self.failures_per_node_day)

    @property
    def checkpoint_interval(self) -> float:
        """The interval in use."""
        return self.interval or daly_interval(self.stall, self.mean_time_between)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Shares of wall time, means over replications; they sum to 1.

    `margin`: half of the 95 % interval of goodput; `waited`: the share of failures that found no spare.
    """

    spares: int
    goodput: float
    margin: float
    stalls: float
    again: float
    recovery: float
    waiting: float
    failures: float
    waited: float
    time_to_recover: float


@dataclass(slots=True)
class _Ledger:
    useful: float = 0.0
    stalls: float = 0.0
    again: float = 0.0
    recovery: float = 0.0
    waiting: float = 0.0
    failures: int = 0
    waited: int = 0


class _Job:
    """One replication."""

    def __init__(self, fleet: Fleet, spares: int, chance: np.random.Generator) -> None:
        self._fleet, self._chance = fleet, chance
        self._interval = fleet.checkpoint_interval
        self._world = simpy.Environment()
        self._spares = simpy.Container(self._world, init=spares)
        self.ledger = _Ledger()

    def run(self, horizon: float) -> _Ledger:
        self._world.process(self._live())
        self._world.run(until=horizon)
        return self.ledger

    def _next_failure(self) -> float:
        return float(self._chance.exponential(self._fleet.mean_time_between))

    def _live(self) -> Generator[simpy.Event, Any, None]:
        while True:
            yield from self._train(self._next_failure())
            yield from self._recover()

    def _train(self, until_failure: float) -> Generator[simpy.Event, Any, None]:
        """Computes and saves until the next failure, piece by piece: the horizon may cut it anywhere."""
        cycle = self._interval + self._fleet.stall
        whole, rest = divmod(until_failure, cycle)
        for _ in range(int(whole)):
            yield self._world.timeout(cycle)
            self.ledger.useful += self._interval
            self.ledger.stalls += self._fleet.stall
        yield self._world.timeout(rest)
        self.ledger.again += rest

    def _recover(self) -> Generator[simpy.Event, Any, None]:
        """Takes a spare, or waits for one; a further node may fail before the first new step."""
        while True:
            self.ledger.failures += 1
            self._world.process(self._repair())
            begun = self._world.now
            if self._spares.level < 1:
                self.ledger.waited += 1
            yield self._spares.get(1)
            self.ledger.waiting += self._world.now - begun
            until_failure = self._next_failure()
            if until_failure >= self._fleet.recovery:
                yield self._world.timeout(self._fleet.recovery)
                self.ledger.recovery += self._fleet.recovery
                return
            yield self._world.timeout(until_failure)
            self.ledger.recovery += until_failure

    def _repair(self) -> Generator[simpy.Event, Any, None]:
        mean_of_log = math.log(self._fleet.repair) - _REPAIR_SIGMA**2 / 2
        yield self._world.timeout(float(self._chance.lognormal(mean_of_log, _REPAIR_SIGMA)))
        yield self._spares.put(1)


def simulate_fleet(
    fleet: Fleet, spares: int, *, days: float = 90.0, replications: int = 20, seed: int = 0
) -> Outcome:
    """One number of spares, over some replications of the same random times for every number."""
    if spares < 0 or replications < 2 or not days > 0:
        raise BadInput("must not be negative", field="spares", do="0 or more spares, 2 or more replications")
    horizon = days * DAY
    ledgers = [
        _Job(fleet, spares, np.random.default_rng([seed, number])).run(horizon)
        for number in range(replications)
    ]
    goodputs = [ledger.useful / horizon for ledger in ledgers]
    failures = sum(ledger.failures for ledger in ledgers)

    def share(of: Callable[[_Ledger], float]) -> float:
        return fmean(of(ledger) for ledger in ledgers) / horizon

    lost = share(lambda one: one.recovery) + share(lambda one: one.waiting)
    return Outcome(
        spares,
        fmean(goodputs),
        NormalDist().inv_cdf(0.975) * stdev(goodputs) / math.sqrt(replications),
        share(lambda one: one.stalls),
        share(lambda one: one.again),
        share(lambda one: one.recovery),
        share(lambda one: one.waiting),
        failures / replications,
        sum(ledger.waited for ledger in ledgers) / max(1, failures),
        lost * horizon * replications / max(1, failures),
    )


def plan_spares(
    fleet: Fleet,
    candidates: Iterable[int] | None = None,
    *,
    days: float = 90.0,
    replications: int = 20,
    seed: int = 0,
    told: Callable[[Outcome], None] = lambda _: None,
) -> tuple[list[Outcome], Outcome]:
    """Outcomes for growing numbers of spares, and the least number beyond which more gain next to nothing.

    Without `candidates`: from 0 until nearly no failure waits.  `told` hears of each outcome.
    """
    outcomes: list[Outcome] = []
    for spares in candidates if candidates is not None else range(_most(fleet) + 1):
        outcomes.append(simulate_fleet(fleet, spares, days=days, replications=replications, seed=seed))
        told(outcomes[-1])
        if candidates is None and outcomes[-1].waited < 0.001:
            break
    best = max(outcome.goodput for outcome in outcomes)
    return outcomes, next(outcome for outcome in outcomes if outcome.goodput >= best - _ENOUGH)


def _most(fleet: Fleet) -> int:
    """Nodes in repair are Poisson distributed (M/G/infinity): six deviations above the mean are enough."""
    mean = fleet.nodes * fleet.failures_per_node_day * fleet.repair / DAY
    return math.ceil(mean + 6 * math.sqrt(mean) + 2)


def as_row(outcome: Outcome) -> dict[str, Any]:
    """A line of the table."""
    percent = {
        name: f"{100 * getattr(outcome, name):.2f} %"
        for name in ("goodput", "stalls", "again", "recovery", "waiting", "waited")
    }
    return {
        "spares": outcome.spares,
        **percent,
        "margin": f"{100 * outcome.margin:.2f}",
        "failures": round(outcome.failures, 1),
        "time_to_recover": f"{outcome.time_to_recover / 60:.1f} min",
    }
