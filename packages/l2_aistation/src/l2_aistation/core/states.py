"""The two state machines of the platform as tables: (state, event) -> state.

A **job** is QUEUED until its whole gang has a place, then an **attempt** carries it: the ranks are
started, run, and either all complete or a fault is met.  After a fault the attempt is HELD: its
ranks are ended, its nodes kept; the cause is named; a lost node is replaced; the next attempt is
RESUMING.  `STOPPING` carries its target (the job's `target` column), so that a restart of the
platform goes on from where it was.

States that survive a restart as they are: all of them.  `IN_FLIGHT` states have commands that the
platform sends again after a restart; commands are idempotent.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class JobState(StrEnum):
    """Where a job is."""

    QUEUED = "queued"
    SUSPENDED = "suspended"
    STARTING = "starting"
    RUNNING = "running"
    HELD = "held"
    RESUMING = "resuming"
    STOPPING = "stopping"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobEvent(StrEnum):
    """What can happen to a job."""

    PLACE = "place"  # the gang has nodes; an attempt is made
    STARTED = "started"  # every rank of the attempt runs
    COMPLETE = "complete"  # every rank ended with 0
    FAULT = "fault"  # something broke: hold
    RESUME = "resume"  # a new attempt on the kept or replaced nodes
    REQUEUE = "requeue"  # give the nodes back and wait again
    STOP = "stop"  # end the ranks on the way to `target`
    STOPPED = "stopped"  # the ranks are gone; the state becomes `target`
    SUSPEND = "suspend"
    RELEASE = "release"
    CANCEL = "cancel"
    FAIL = "fail"  # a user error, or attempts used up


class AttemptState(StrEnum):
    """Where one try of the gang is."""

    STARTING = "starting"
    RUNNING = "running"
    HOLDING = "holding"  # ranks are being ended after a fault
    HELD = "held"  # no rank is left, nodes are kept, the cause is being named
    STOPPING = "stopping"
    ENDED = "ended"


class AttemptEvent(StrEnum):
    """What can happen to an attempt."""

    STARTED = "started"
    FAULT = "fault"
    QUIET = "quiet"  # every node that lives has confirmed that no rank is left
    STOP = "stop"
    END = "end"


J, JE, A, AE = JobState, JobEvent, AttemptState, AttemptEvent

_LIVE = (J.STARTING, J.RUNNING, J.HELD, J.RESUMING)

JOB_TABLE: Mapping[tuple[JobState, JobEvent], JobState] = {
    (J.QUEUED, JE.PLACE): J.STARTING,
    (J.QUEUED, JE.RESUME): J.RESUMING,
    (J.QUEUED, JE.SUSPEND): J.SUSPENDED,
    (J.QUEUED, JE.CANCEL): J.CANCELLED,
    (J.SUSPENDED, JE.RELEASE): J.QUEUED,
    (J.SUSPENDED, JE.CANCEL): J.CANCELLED,
    **{(state, JE.STARTED): J.RUNNING for state in (J.STARTING, J.RESUMING)},
    **{(state, JE.COMPLETE): J.COMPLETED for state in (J.STARTING, J.RUNNING, J.RESUMING)},
    **{(state, JE.FAULT): J.HELD for state in (J.STARTING, J.RUNNING, J.RESUMING)},
    **{(state, JE.STOP): J.STOPPING for state in _LIVE},
    (J.HELD, JE.RESUME): J.RESUMING,
    (J.HELD, JE.REQUEUE): J.QUEUED,
    (J.HELD, JE.FAIL): J.FAILED,
}
"""STOPPING leaves by `STOPPED` to the job's `target`, one of `STOP_TARGETS`."""

STOP_TARGETS = frozenset({J.QUEUED, J.SUSPENDED, J.CANCELLED, J.FAILED})

ATTEMPT_TABLE: Mapping[tuple[AttemptState, AttemptEvent], AttemptState] = {
    (A.STARTING, AE.STARTED): A.RUNNING,
    **{(state, AE.FAULT): A.HOLDING for state in (A.STARTING, A.RUNNING)},
    (A.HOLDING, AE.QUIET): A.HELD,
    **{(state, AE.STOP): A.STOPPING for state in (A.STARTING, A.RUNNING, A.HOLDING, A.HELD)},
    **{(state, AE.END): A.ENDED for state in (A.STARTING, A.RUNNING, A.HELD, A.STOPPING)},
}

FINAL = frozenset({J.COMPLETED, J.FAILED, J.CANCELLED})
"""Nothing happens to these any more."""

WAITING = frozenset({J.QUEUED, J.SUSPENDED})
"""These hold no accelerator and no node."""

HOLDING = frozenset({J.STARTING, J.RUNNING, J.HELD, J.RESUMING, J.STOPPING})
"""These hold their whole placement."""

IN_FLIGHT = frozenset({J.STARTING, J.RESUMING, J.STOPPING})
"""These have commands under way that are sent again after a restart."""


class TransitionError(ValueError):
    """The table has no such transition."""


def next_job(state: JobState, event: JobEvent) -> JobState:
    """The job's next state; `TransitionError` where the table has none."""
    try:
        return JOB_TABLE[state, event]
    except KeyError:
        raise TransitionError(f"a {state} job cannot {event}") from None


def next_attempt(state: AttemptState, event: AttemptEvent) -> AttemptState:
    """The attempt's next state; `TransitionError` where the table has none."""
    try:
        return ATTEMPT_TABLE[state, event]
    except KeyError:
        raise TransitionError(f"an attempt that is {state} cannot meet {event}") from None
