"""The reliability figures of a job: what its attempts, steps and faults say of its time."""

from __future__ import annotations

from typing import Any

from l2_aistation._kit.tokens import Principal
from l2_aistation.core.attempt import Attempt
from l2_aistation.core.reliability import Figures, Life, figures_of

from .loop import Service
from .views import job_row

_ENDS = frozenset({"completed", "cancelled", "suspended", "requeued", "preempted", "failed"})
"""Causes that are no fault: somebody wanted it so, or the program is done."""


def reliability(service: Service, who: Principal, name: str) -> dict[str, Any]:
    """Goodput, ETTR, MTTR, MTBF, seconds by phase and by cause."""
    row = job_row(service, who, name)
    now = row["ended_at"] if row["ended_at"] is not None else service.platform.clock()
    faults = {fault["attempt"]: fault["label"] for fault in service.store.faults(name)}
    spans = {span["attempt"]: span for span in service.store.step_spans(name)}
    attempts = service.store.attempts(name)
    lives = [_life(attempt, faults.get(attempt.number), spans.get(attempt.number)) for attempt in attempts]
    return as_view(figures_of(row["submitted_at"], lives, now))


def as_view(figures: Figures) -> dict[str, Any]:
    """The figures as JSON: ratios between 0 and 1, times in seconds."""
    return {
        "wall_s": round(figures.wall, 3),
        "goodput": _rounded(figures.goodput, 4),
        "ettr": _rounded(figures.ettr, 4),
        "mttr_s": _rounded(figures.mttr, 3),
        "mtbf_s": _rounded(figures.mtbf, 3),
        "faults": figures.faults,
        "phases_s": {phase: round(seconds, 3) for phase, seconds in figures.phases.items()},
        "causes": [
            {"label": label, "faults": count, "lost_s": round(lost, 3)}
            for label, (count, lost) in figures.causes.items()
        ],
    }


def _life(attempt: Attempt, label: str | None, span: Any) -> Life:
    return Life(
        attempt.created_at,
        attempt.ended_at,
        None if span is None else span["first_at"],
        None if span is None else span["last_at"],
        0 if span is None else span["steps"],
        attempt.lost_steps,
        attempt.fault_at,
        label if attempt.cause not in _ENDS else None,
    )


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
