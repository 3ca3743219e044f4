"""A job's bars: they cover its life without gaps, and its ticks are round times."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l2_aistation.core.attempt import Attempt
from l2_aistation.core.states import AttemptState
from l2_aistation.web.timeline import MOST_TICKS, Timeline, span_words, timeline

START = 1_700_000_000.0


def row(**more: Any) -> dict[str, Any]:
    return {"submitted_at": START, "ended_at": None, "state": "running", "promised_at": None, **more}


def moved(at: float, to: str) -> dict[str, Any]:
    return {"at": START + at, "kind": "state", "body": {"from": "", "to": to}}


def states(found: Timeline, lane: int = 0) -> list[tuple[str, float, float]]:
    return [(part.state, part.left, part.left + part.width) for part in found.lanes[lane].parts]


def test_waiting_starting_running() -> None:
    entries = [moved(50, "starting"), moved(60, "running")]
    attempt = Attempt("j", 1, [], 0, START + 50, AttemptState.RUNNING, started_at=START + 60)
    found = timeline(row(), entries, [attempt], [], START + 100)
    assert states(found) == [("queued", 0, 50), ("starting", 50, 60), ("running", 60, 100)]
    assert states(found, 1) == [("starting", 50, 60), ("running", 60, 100)]


def test_a_fault_is_a_mark_and_what_follows_is_held() -> None:
    attempt = Attempt(
        "j",
        1,
        [],
        0,
        START,
        AttemptState.ENDED,
        started_at=START + 10,
        ended_at=START + 100,
        fault_at=START + 80,
    )
    fault = {"attempt": 1, "at": START + 80, "label": "node_lost"}
    found = timeline(row(), [moved(10, "running"), moved(80, "held")], [attempt], [fault], START + 100)
    assert states(found, 1) == [("starting", 0, 10), ("running", 10, 80), ("held", 80, 100)]
    assert [(mark.left, mark.what) for mark in found.lanes[1].marks] == [(80, "node_lost")]


def test_a_promise_lies_ahead_on_the_bar_of_a_waiting_job() -> None:
    found = timeline(row(state="queued", promised_at=START + 400), [], [], [], START + 100)
    assert states(found) == [("queued", 0, 25)]
    assert [(mark.left, mark.what) for mark in found.lanes[0].marks] == [(100, "promised")]


@given(
    st.lists(st.tuples(st.floats(0, 1e7), st.sampled_from(["starting", "running", "held", "queued"]))),
    st.floats(0, 1e7),
)
def test_the_job_s_bar_has_no_gaps_and_no_overlap(changes: list[tuple[float, str]], more: float) -> None:
    changes.sort(key=lambda change: change[0])
    now = START + (changes[-1][0] if changes else 0) + more
    found = timeline(row(), [moved(*change) for change in changes], [], [], now)
    parts = states(found)
    assert parts[0][1] == 0
    for before, after in itertools.pairwise(parts):
        assert after[1] == pytest.approx(before[2], abs=0.01)
    if now - START >= 1:
        assert parts[-1][2] == pytest.approx(100, abs=0.01)
    assert len(found.ticks) <= MOST_TICKS + 1
    lefts = [left for left, _ in found.ticks]
    assert lefts == sorted(lefts)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""),
        (-3, "0 s"),
        (45.9, "45 s"),
        (725, "12 m 05 s"),
        (12_000, "3 h 20 m"),
        (187_200, "2 d 04 h"),
    ],
)
def test_spans_for_people(seconds: float | None, words: str) -> None:
    assert span_words(seconds) == words
