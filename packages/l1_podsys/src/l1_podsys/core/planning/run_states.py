"""The state machine of one (host, role) pair of a run, as data.

A run's log is a list of events; the states are its fold, so a run that was killed anywhere is read
back and goes on.  A pair found in flight after a crash is set back by `resume` and compared anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from l1_podsys._kit.documents import Part

Pair = tuple[str, str]
"""Host id and role."""


class PairState(StrEnum):
    """PENDING → APPLYING → APPLIED → PROVED, or FAILED."""

    PENDING = "pending"
    APPLYING = "applying"
    APPLIED = "applied"
    PROVED = "proved"
    FAILED = "failed"


#: (state, event): next state.
TRANSITIONS: dict[tuple[PairState, str], PairState] = {
    (PairState.PENDING, "start"): PairState.APPLYING,
    (PairState.PENDING, "found"): PairState.PROVED,  # a fresh comparison shows nothing to do
    (PairState.PENDING, "fail"): PairState.FAILED,  # the host does not answer any more
    (PairState.APPLYING, "done"): PairState.APPLIED,
    (PairState.APPLYING, "fail"): PairState.FAILED,
    (PairState.APPLYING, "resume"): PairState.PENDING,
    (PairState.APPLIED, "prove"): PairState.PROVED,
    (PairState.APPLIED, "fail"): PairState.FAILED,  # the probe still sees a difference
    (PairState.APPLIED, "resume"): PairState.PENDING,
}
IN_FLIGHT = frozenset({PairState.APPLYING, PairState.APPLIED})
FINISHED = frozenset({PairState.PROVED, PairState.FAILED})


class RunEvent(Part):
    """One line of a run's log: `begin`, an event of a pair, a `note` or `end`."""

    sequence: int
    time: str
    event: str
    host: str | None = None
    role: str | None = None
    detail: str = ""


class RunStates(NamedTuple):
    """A run's log folded: the states of its pairs, whether it has ended, and how."""

    states: dict[Pair, PairState]
    details: dict[Pair, str]
    ended: str | None


def next_state(state: PairState, event: str) -> PairState:
    """The state after an event; `ValueError` for one that the table does not allow."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise ValueError(f"{event!r} is not allowed in state {state.value!r}") from None


def fold(pairs: Iterable[Pair], events: Iterable[RunEvent]) -> RunStates:
    """The states after a log."""
    states = dict.fromkeys(pairs, PairState.PENDING)
    details: dict[Pair, str] = {}
    ended = None
    for event in events:
        if event.event == "end":
            ended = event.detail
        elif event.event == "begin":
            ended = None
        elif event.host is not None and event.role is not None:
            pair = (event.host, event.role)
            states[pair] = next_state(states[pair], event.event)
            details[pair] = event.detail
    return RunStates(states, details, ended)
