"""A job's life as bars: its states and what each attempt did, in percent of the time shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from l2_aistation.core.attempt import Attempt

STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
MOST_TICKS = 3
LAST_TICK = 78
"""Percent from which the words of a tick could run over the end of a narrow window."""


@dataclass(frozen=True)
class Part:
    """A piece of a bar: `state` colours it; from `left`, `width` wide, in percent."""

    state: str
    left: float
    width: float
    seconds: float


@dataclass(frozen=True)
class Mark:
    """A moment on a bar."""

    left: float
    what: str
    at: float


@dataclass(frozen=True)
class Lane:
    """One bar: the job itself (`attempt` None) or one of its attempts."""

    attempt: int | None
    parts: list[Part]
    marks: list[Mark]


@dataclass(frozen=True)
class Timeline:
    """All bars over one span, and the ticks of its axis: (percent, words)."""

    lanes: list[Lane]
    ticks: list[tuple[float, str]]


class _Scale:
    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, max(end, start + 1.0)

    def at(self, moment: float) -> float:
        share = (moment - self.start) / (self.end - self.start)
        return round(100 * min(max(share, 0.0), 1.0), 3)

    def part(self, state: str, start: float, end: float) -> Part:
        left = self.at(start)
        return Part(state, left, round(self.at(end) - left, 3), max(end - start, 0.0))


def timeline(
    job: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]],
    attempts: Sequence[Attempt],
    faults: Sequence[Mapping[str, Any]],
    now: float,
) -> Timeline:
    """The bars of a job from its row, its log, attempts and faults; times in seconds."""
    start, end = job["submitted_at"], job["ended_at"] or now
    promised = job.get("promised_at")
    waits = job["state"] in ("queued", "suspended")
    if promised and waits:
        end = max(end, promised)
    scale = _Scale(start, end)
    own = Lane(None, _states(scale, job, entries, min(end, now)), [])
    if promised and waits:
        own.marks.append(Mark(scale.at(promised), "promised", promised))
    lanes = [own, *(_attempt(scale, attempt, faults, now) for attempt in attempts)]
    return Timeline(lanes, _ticks(scale))


def _states(
    scale: _Scale, job: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], now: float
) -> list[Part]:
    changes = [(entry["at"], entry["body"]["to"]) for entry in entries if entry["kind"] == "state"]
    points = [(job["submitted_at"], "queued"), *changes]
    ends = [*(at for at, _ in points[1:]), job["ended_at"] or now]
    parts = [
        scale.part(state, start, end) for (start, state), end in zip(points, ends, strict=True) if end > start
    ]
    return parts or [scale.part(str(job["state"]), job["submitted_at"], now)]


def _attempt(scale: _Scale, attempt: Attempt, faults: Sequence[Mapping[str, Any]], now: float) -> Lane:
    end = attempt.ended_at or now
    stopped = min(attempt.fault_at or end, end)
    started = min(attempt.started_at or stopped, stopped)
    found = [fault for fault in faults if fault["attempt"] == attempt.number]
    spans = (
        ("starting", attempt.created_at, started),
        ("running", started, stopped),
        ("held" if found else "stopping", stopped, end),
    )
    parts = [scale.part(state, start, until) for state, start, until in spans if until > start]
    marks = [Mark(scale.at(fault["at"]), fault["label"], fault["at"]) for fault in found]
    return Lane(attempt.number, parts, marks)


def _ticks(scale: _Scale) -> list[tuple[float, str]]:
    """Round times (UTC) within the span, few enough to be read."""
    span = scale.end - scale.start
    step = next((step for step in STEPS_S if span / step <= MOST_TICKS), None)
    if step is None:
        step = int(span / MOST_TICKS / 86400 + 1) * 86400
    style = (
        "%m-%d" if step >= 86400 else "%m-%d %H:%M" if span > 86400 else "%H:%M" if step >= 60 else "%H:%M:%S"
    )
    first = int(scale.start // step + 1) * step
    moments = [first + number * step for number in range(MOST_TICKS + 1) if first + number * step < scale.end]
    ticks = [(scale.at(at), datetime.fromtimestamp(at, UTC).strftime(style)) for at in moments]
    return [(left, words) for left, words in ticks if left < LAST_TICK]


def span_words(seconds: float | None) -> str:
    """A length of time for people: 45 s, 12 m 05 s, 3 h 20 m, 2 d 4 h."""
    if seconds is None:
        return ""
    whole = int(max(seconds, 0))
    for unit, below, letter, lower in ((86400, 3600, "d", "h"), (3600, 60, "h", "m"), (60, 1, "m", "s")):
        if whole >= unit:
            return f"{whole // unit} {letter} {whole % unit // below:02d} {lower}"
    return f"{whole} s"
