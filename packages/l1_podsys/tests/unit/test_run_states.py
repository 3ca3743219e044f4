"""The run's state machine: from any log that a kill can leave, a resumed run reaches an end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l1_podsys.core.planning import FINISHED, TRANSITIONS, PairState, RunEvent, fold, next_state
from l1_podsys.core.planning.run_states import IN_FLIGHT

PAIRS = [("n1", "users"), ("n1", "time"), ("n2", "users")]
EVENTS = sorted({event for _, event in TRANSITIONS})


def log(steps: list[tuple[int, str]]) -> list[RunEvent]:
    """The events that are allowed, one after the other, as a run writes them."""
    states = dict.fromkeys(PAIRS, PairState.PENDING)
    events = [RunEvent(sequence=1, time="t", event="begin")]
    for index, event in steps:
        pair = PAIRS[index % len(PAIRS)]
        if (states[pair], event) in TRANSITIONS:
            states[pair] = TRANSITIONS[states[pair], event]
            events.append(
                RunEvent(sequence=len(events) + 1, time="t", event=event, host=pair[0], role=pair[1])
            )
    return events


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(EVENTS)), max_size=30), st.integers(0, 31))
def test_from_any_crash_a_resume_leads_to_an_end(steps: list[tuple[int, str]], cut: int) -> None:
    left = log(steps)[:cut]
    states = fold(PAIRS, left).states
    for pair, state in states.items():
        if state in IN_FLIGHT:
            states[pair] = next_state(state, "resume")
    for pair, state in states.items():
        assert state is PairState.PENDING or state in FINISHED
        if state is PairState.PENDING:
            for event in ("start", "done", "prove"):
                states[pair] = next_state(states[pair], event)
    assert set(states.values()) <= FINISHED


def test_finished_states_have_no_way_out() -> None:
    assert not [state for state, _ in TRANSITIONS if state in FINISHED]


def test_every_state_is_reached_and_every_unfinished_one_is_left() -> None:
    assert set(TRANSITIONS.values()) == set(PairState)
    assert {state for state, _ in TRANSITIONS} == set(PairState) - FINISHED


def test_an_event_that_is_not_allowed_is_refused() -> None:
    with pytest.raises(ValueError, match="not allowed"):
        next_state(PairState.PROVED, "start")


def test_the_end_is_told_until_a_new_beginning() -> None:
    begin, end = (
        RunEvent(sequence=1, time="t", event="begin"),
        RunEvent(sequence=2, time="t", event="end", detail="done"),
    )
    assert fold(PAIRS, [begin, end]).ended == "done"
    assert fold(PAIRS, [begin, end, begin]).ended is None
