"""What became of a job's time: goodput, effective training time ratio, time to recover, time between faults.

Terms as in "Revisiting Reliability in Large-Scale Machine Learning Research Clusters" (arXiv 2410.21680):
ETTR is productive time over all time since submission, queueing included.  Goodput leaves out the queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

PHASES = ("queued", "starting", "training", "again", "detection", "recovery")
"""In the order in which an attempt passes them; together they are all of the time."""


@dataclass(frozen=True, slots=True)
class Life:
    """One attempt; times in seconds of one clock.

    `first_at` and `last_at` are when its first and last step were reported; `lost_steps` is what it had to
    do again; `cause` is the label of the fault that ended it, None for any other end.
    """

    created: float
    ended: float | None = None
    first_at: float | None = None
    last_at: float | None = None
    steps: int = 0
    lost_steps: int = 0
    fault_at: float | None = None
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """`phases`: seconds of each of `PHASES`; `causes`: label -> (faults, seconds until steps came again).

    A ratio or a mean is None where there is nothing to divide by.
    """

    wall: float
    phases: Mapping[str, float]
    faults: int
    goodput: float | None
    ettr: float | None
    mttr: float | None
    mtbf: float | None
    causes: Mapping[str, tuple[int, float]] = field(default_factory=dict)


def figures_of(submitted: float, lives: Sequence[Life], now: float) -> Figures:
    """The figures of a job from its attempts in order; `now` is its end, or the present while it lives."""
    phases = dict.fromkeys(PHASES, 0.0)
    before = submitted
    for number, life in enumerate(lives):
        gap = max(0.0, life.created - before)
        phases["queued" if number == 0 or lives[number - 1].cause is None else "recovery"] += gap
        end = life.ended if life.ended is not None else now
        for phase, seconds in _parts(life, max(end, life.created), resumed=_resumed(lives, number)).items():
            phases[phase] += seconds
        before = max(before, end, life.created)
    phases["queued" if not lives or lives[-1].cause is None else "recovery"] += max(0.0, now - before)
    repairs = _repairs(lives)
    faults = sum(life.cause is not None for life in lives)
    return Figures(
        sum(phases.values()),
        phases,
        faults,
        _over(phases["training"], sum(phases.values()) - phases["queued"]),
        _over(phases["training"], sum(phases.values())),
        fmean(seconds for _, seconds in repairs) if repairs else None,
        _over(phases["training"] + phases["again"], faults),
        _by_cause(lives, repairs),
    )


def _resumed(lives: Sequence[Life], number: int) -> bool:
    return number > 0 and lives[number - 1].cause is not None


def _parts(life: Life, end: float, *, resumed: bool) -> dict[str, float]:
    """An attempt's time from its creation to its end, cut at its first step, its last step and its fault."""
    begin = "recovery" if resumed else "starting"
    if life.first_at is None or life.last_at is None:
        return {begin: end - life.created}
    first = min(max(life.first_at, life.created), end)
    last = min(max(life.last_at, first), end)
    stepping = last - first
    again = min(stepping, stepping * life.lost_steps / (life.steps - 1)) if life.steps > 1 else 0.0
    parts = {begin: first - life.created, "again": again}
    if life.cause is None:
        return {**parts, "training": end - first - again}
    fault = min(max(life.fault_at if life.fault_at is not None else last, last), end)
    seen = {"training": stepping - again, "detection": fault - last}
    parts["recovery"] = parts.get("recovery", 0.0) + end - fault
    return {**parts, **seen}


def _repairs(lives: Sequence[Life]) -> list[tuple[str, float]]:
    """For each fault after which steps came again: its label, and seconds from the last step to them."""
    found = []
    for number, life in enumerate(lives):
        if life.cause is None:
            continue
        stopped = life.last_at if life.last_at is not None else life.fault_at
        again = next((later.first_at for later in lives[number + 1 :] if later.first_at is not None), None)
        if stopped is not None and again is not None:
            found.append((life.cause, max(0.0, again - stopped)))
    return found


def _by_cause(lives: Sequence[Life], repairs: Sequence[tuple[str, float]]) -> dict[str, tuple[int, float]]:
    counts: dict[str, int] = defaultdict(int)
    lost: dict[str, float] = defaultdict(float)
    for life in lives:
        if life.cause is not None:
            counts[life.cause] += 1
    for cause, seconds in repairs:
        lost[cause] += seconds
    return {cause: (count, lost[cause]) for cause, count in sorted(counts.items())}


def _over(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
