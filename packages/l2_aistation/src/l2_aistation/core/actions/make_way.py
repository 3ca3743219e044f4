"""What reclaim, preempt and consolidate have in common: a claimant, its right, a plan, a claim."""

from __future__ import annotations

from l2_aistation.core.claims import Claim
from l2_aistation.core.cycle import Session
from l2_aistation.core.job import Job
from l2_aistation.core.policy import Request, says
from l2_aistation.core.refusal import Refusal
from l2_aistation.core.seat import smallest
from l2_aistation.core.victims import Plan, find
from l2_aistation.core.waiting import Lane

from .allocate import wants_room

LIMITS = frozenset({"queue cap", "user limit"})
"""Limits of a policy that others can make way under."""

MOST_CLAIMANTS = 8
"""Claimants of an action that are looked for victims in one cycle, the best ranked first."""

RETRY_S = 10.0
"""A claimant that found no victims is not looked at again for so long: what changes then is time."""


def make_way(session: Session, action: str) -> None:
    """Finds victims for those who wait and have a right to ask, and keeps the place for them."""
    policies = [policy for policy in session.policies if says(policy, "rights")]
    tried = 0
    for lane in _blocked(session):
        while lane.entries and tried < MOST_CLAIMANTS:
            job = lane.first
            known = session.world.unheard.get((action, job.id))
            if known is not None and 0 <= session.now - known < RETRY_S:
                break
            request = Request(job, smallest(job.demand), action, session.now)
            rights = [policy.rights(session.world, request) for policy in policies]
            plans = (find(session, request, right) for right in rights if right is not None)
            plan = next((plan for plan in plans if plan is not None), None)
            tried += any(right is not None for right in rights)
            if plan is None:
                if any(right is not None for right in rights):
                    session.world.unheard[action, job.id] = session.now
                break  # its like would not find any either
            carry_out(session, request, plan)


def _blocked(session: Session) -> list[Lane]:
    """Lanes whose jobs want room, or are held back by a limit that others fill, in their order."""
    lanes = [lane for lane in session.lanes() if lane.entries and _may_ask(lane.refusal)]
    lanes.sort(key=lambda lane: (session.rank(lane.first), lane.entries[0][:2]))
    return lanes


def _may_ask(refusal: Refusal | None) -> bool:
    if refusal is None or refusal.forever:
        return False
    return wants_room(refusal) or refusal.limit in LIMITS


def carry_out(session: Session, request: Request, plan: Plan) -> None:
    """Victims are asked to leave; the claimant's place, and those of whom is moved, are kept."""
    statement, now, job = session.statement, session.now, request.job
    names = tuple(item.job.id for item in plan.victims)
    for item in plan.victims:
        statement.evict(item.job, job, request.action, now)
    statement.claim(job, Claim(plan.placement, names, now, request.action))
    for item in plan.victims:
        if item.job.id in plan.moves:
            others = tuple(name for name in names if name != item.job.id)
            statement.claim(item.job, Claim(plan.moves[item.job.id], others, now, request.action))
    _tell(session, job, len(names))


def _tell(session: Session, job: Job, leaving: int) -> None:
    words = "its place is kept; it starts when {needed} {unit} have stopped"
    session.told.append((job, Refusal("claim", words, needed=leaving, unit="jobs")))
