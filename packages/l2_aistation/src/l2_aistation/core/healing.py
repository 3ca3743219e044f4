"""The words that diagnosis, recovery and the service share.

`core.diagnosis.name_cause(Evidence) -> Cause` says what broke, `core.recovery.decide(Situation) ->
Decision` what to do.  Both are pure; the service gathers the evidence and carries the decision out.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RankExit:
    """How a rank ended by itself, in the order of `at`."""

    rank: int
    node: str
    at: float
    code: int | None = None
    signal: int | None = None
    lost: bool = False
    tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stall:
    """What a supervisor saw of a living rank: hang, slow, nan, spike, disk, memory."""

    rank: int
    node: str
    at: float
    kind: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LostNode:
    """A node whose heartbeats stopped; `power` is on, off or None (nobody could tell)."""

    node: str
    last_seen: float
    noticed: float
    power: str | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known about the end of one attempt."""

    job: str
    attempt: int
    world_size: int
    exits: tuple[RankExit, ...] = ()
    stalls: tuple[Stall, ...] = ()
    lost: tuple[LostNode, ...] = ()
    started: bool = True
    last_step: int | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """What broke: a label of the vocabulary, its category, the place, why we think so, what it asks for.

    `action` is one of restart, replace, reset, stop, fix, watch, ignore, rollback.
    """

    label: str
    category: str
    action: str
    node: str | None = None
    rank: int | None = None
    evidence: tuple[str, ...] = ()
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class Place:
    """A node as recovery sees it."""

    node: str
    leaf: str
    spine: str
    spare: bool = False


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """An earlier attempt in one line: why it ended, and how far it came."""

    number: int
    label: str | None
    first_step: int | None
    last_step: int | None
    node: str | None = None
    started: float = 0.0
    ended: float = 0.0


@dataclass(frozen=True, slots=True)
class Situation:
    """What recovery decides on: the held attempt's places by rank order, and what could replace one.

    `tasks` is how many ranks each place carries, `least` and `unit` the sizes that an elastic gang can go
    on with (None: only whole).  `rollback` asks to go back behind a spoilt loss; the attempt came to
    `last_step`, with a checkpoint each `every_steps`.  `candidates` are free, healthy nodes with room for
    the tasks of any one node of the gang, spares and others.  `unusable` are the held nodes that cannot
    carry ranks any more (lost, cordoned).
    """

    cause: Cause
    places: tuple[Place, ...]
    unusable: frozenset[str]
    candidates: tuple[Place, ...]
    history: tuple[PastAttempt, ...]
    max_attempts: int
    on_user_error: bool
    now: float
    held_since: float
    hold_limit_s: float = 60.0
    tasks: tuple[int, ...] = ()
    least: int | None = None
    unit: int = 1
    rollback: bool = False
    last_step: int | None = None
    every_steps: int = 1


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with a held job.

    resume  start the next attempt, ranks kept, `replaced` maps a node to its stand-in (empty: same nodes)
    shrink  start the next attempt with the first `size` ranks of what is left, numbered anew
    wait    nothing fits now; ask again later (`why` is shown to people)
    requeue give the nodes back and wait in the queue
    fail    the job ends: a user error, or its attempts are used up
    """

    what: str
    why: str
    replaced: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    cordon: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    size: int | None = None
    rollback: tuple[int, int] | None = None
