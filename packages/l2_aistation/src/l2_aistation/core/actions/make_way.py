"""What reclaim, preempt and consolidate have in common: a claimant, its right, a plan, a claim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from l2_aistation.core.claims import Claim
from l2_aistation.core.cycle import Session
from l2_aistation.core.job import Job
from l2_aistation.core.policy import Policy, Request
from l2_aistation.core.refusal import Refusal
from l2_aistation.core.seat import smallest
from l2_aistation.core.victims import Plan, find
from l2_aistation.core.waiting import Lane, level_of

from .allocate import wants_room

LIMITS = frozenset({"queue cap", "user limit"})
"""Limits of a policy that others can make way under."""

MOST_CLAIMANTS = 4
"""Claimants of an action that are looked for victims in one cycle, the best ranked first."""

RETRY_S = 10.0
MOST_RETRY_S = {"consolidate": 1800.0}
USUAL_MOST_S = 60.0
"""What was in vain is tried again after so long, then after twice as long each time, up to this."""

MOST_KNOWN = 10_000
"""Vain searches that are remembered."""

Key = tuple[object, ...]


def make_way(session: Session, action: str) -> None:
    """Finds victims for those who wait and have a right to ask, and keeps the place for them."""
    tried = 0
    policies = [policy for policy in session.asked["rights"] if _asks_in(policy, action)]
    for key, lane in _claimants(session, action, policies):
        while lane.entries and tried < MOST_CLAIMANTS:
            tried += 1
            request = Request(lane.first, smallest(lane.demand), action, session.now)
            plan = _plan(session, request, policies)
            if plan is None:
                _in_vain(session, key)
                break  # its like would not find any either
            session.world.unheard.pop(key, None)
            carry_out(session, request, plan)


def _claimants(session: Session, action: str, policies: Sequence[Policy]) -> list[tuple[Key, Lane]]:
    """The first of each kind of job that is blocked and has a right, in the order of the policies."""
    world, found = session.world, []
    for kind, lane in blocked(session):
        if not lane.entries:
            continue
        key = action, *kind
        if key in world.unheard and not _due(session, key):
            continue
        request = Request(lane.first, smallest(lane.demand), action, session.now)
        for policy in policies:
            if policy.rights(world, request) is not None:
                found.append((session.rank(lane.first), lane.entries[0][:2], key, lane))
                break
    found.sort(key=lambda item: item[:2])
    return [(key, lane) for _, _, key, lane in found]


def blocked(session: Session) -> list[tuple[Key, Lane]]:
    """Kinds of jobs that want room, or are held back by a limit that others fill; one lane of each."""
    if session.blocked is None:
        kinds: dict[Key, Lane] = {}
        asks: dict[int, tuple[bool, bool]] = {}  # by the identity of refusals: many lanes share one
        for lane in _firsts(session):
            refusal = lane.refusal
            if refusal is None or not lane.entries:
                continue
            known = asks.get(id(refusal))
            if known is None:
                known = asks[id(refusal)] = may_ask(refusal), refusal.limit in LIMITS
            if not known[0]:
                continue
            job = lane.entries[0][2]
            kind = job.queue, job.priority, lane.demand, level_of(job.ran_s), known[1]
            other = kinds.get(kind)
            if other is None or lane.entries[0][:2] < other.entries[0][:2]:
                kinds[kind] = lane
        session.blocked = list(kinds.items())
    return session.blocked


def _firsts(session: Session) -> Iterator[Lane]:
    """The lanes of this cycle; of a kind that was refused as a whole, the first."""
    if session.only is not None:
        yield from session.lanes()
        return
    for kind in session.world.waiting.kinds.values():
        head = kind.head()
        if kind.odd:
            yield from kind.lanes.values()
        elif head is not None:
            yield head


def may_ask(refusal: Refusal) -> bool:
    """Whether a job could start if others left."""
    return not refusal.forever and (refusal.limit in LIMITS or wants_room(refusal))


def _asks_in(policy: Policy, action: str) -> bool:
    actions = getattr(policy, "asks_in", None)
    return actions is None or action in actions


def _plan(session: Session, request: Request, policies: Sequence[Policy]) -> Plan | None:
    for policy in policies:
        right = policy.rights(session.world, request)
        while right is not None:
            plan = find(session, request, right)
            if plan is not None:
                return plan
            right = right.otherwise
    return None


def _due(session: Session, key: Key) -> bool:
    at, wait = session.world.unheard[key]
    return not 0 <= session.now - at < wait


def _in_vain(session: Session, key: Key) -> None:
    unheard = session.world.unheard
    most = MOST_RETRY_S.get(str(key[0]), USUAL_MOST_S)
    wait = min(unheard[key][1] * 2, most) if key in unheard else RETRY_S
    if len(unheard) >= MOST_KNOWN:
        unheard.clear()
    unheard[key] = session.now, wait


def carry_out(session: Session, request: Request, plan: Plan) -> None:
    """Victims are asked to leave; the claimant's place, and those of whom is moved, are kept."""
    statement, now, job = session.statement, session.now, request.job
    names = tuple(item.job.id for item in plan.victims)
    for item in plan.victims:
        statement.evict(item.job, job, request.action, now)
    if job.id in session.world.promises:
        session.promise(job, None)  # a claim is better
    statement.claim(job, Claim(plan.placement, names, now, request.action))
    for item in plan.victims:
        if item.job.id in plan.moves:
            others = tuple(name for name in names if name != item.job.id)
            statement.claim(item.job, Claim(plan.moves[item.job.id], others, now, request.action))
    _tell(session, job, len(names))


def _tell(session: Session, job: Job, leaving: int) -> None:
    words = "its place is kept; it starts when {needed} {unit} have stopped"
    session.told.append((job, Refusal("claim", words, needed=leaving, unit="jobs")))
