"""An array by its id: its jobs and what they are doing, as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from l2_aistation._kit.problems import NotFound
from l2_aistation._kit.tokens import Principal
from l2_aistation.core.states import FINAL, WAITING, JobState

from .loop import Service
from .times import moment


def members(service: Service, who: Principal, name: str) -> list[Mapping[str, Any]]:
    """The rows of an array's jobs by index; the same 404 whether it is not there or not the caller's."""
    rows = service.store.members(name, who.scope())
    if not rows:
        raise NotFound(f"no job {name!r}", do="`aistation jobs` lists yours")
    return rows


def is_over(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether every job of it has ended."""
    return all(JobState(row["state"]) in FINAL for row in rows)


def state_of(rows: Sequence[Mapping[str, Any]]) -> JobState:
    """One state for all: the worst end once all have ended, else running while any is past waiting."""
    states = {JobState(row["state"]) for row in rows}
    if states <= FINAL:
        order = (JobState.FAILED, JobState.CANCELLED, JobState.COMPLETED)
        return next(state for state in order if state in states)
    return JobState.QUEUED if states <= WAITING else JobState.RUNNING


def array_view(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """An array as a job is shown, with its jobs."""
    first, over = rows[0], is_over(rows)
    counts = Counter(str(row["state"]) for row in rows)
    started = [row["started_at"] for row in rows if row["started_at"] is not None]
    return {
        "id": first["array"],
        **{name: first[name] for name in ("name", "tenant", "owner", "queue", "priority", "spec_digest")},
        "state": str(state_of(rows)),
        "attempt": 0,
        "submitted_at": moment(first["submitted_at"]),
        "started_at": moment(min(started, default=None)),
        "ended_at": moment(max(row["ended_at"] for row in rows)) if over else None,
        "cause": None,
        "why": ", ".join(f"{count} {state}" for state, count in sorted(counts.items())),
        "attempts": [],
        "faults": [],
        "states": dict(counts),
        "jobs": [
            {"id": row["id"], "array_index": row["array_index"], "state": row["state"], "cause": row["cause"]}
            for row in rows
        ],
    }
