"""Whom a claimant may ask to leave, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass

from l2_aistation.core.cycle import Session
from l2_aistation.core.job import Job
from l2_aistation.core.policy import Request, Right, says
from l2_aistation.core.pool import Placement
from l2_aistation.core.states import JobState

EVICTABLE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.HELD, JobState.RESUMING})
"""States that a job can be stopped in."""


@dataclass(slots=True, eq=False)
class Candidate:
    """A job that may be asked to leave, where it is, and its weight."""

    job: Job
    placement: Placement
    weight: int
    number: int = 0
    """Its place among the candidates."""


def gather(session: Session, request: Request, right: Right) -> list[Candidate]:
    """Those who may be asked, the lightest first.

    Left out is whom a policy protects, who is leaving or moving already, whom this claimant evicted
    before, whoever evicted the claimant (or evicted one who did, and so on), and who is nowhere that
    the claimant could use.
    """
    world, now = session.world, session.now
    spare = world.spared_by(request.job.id) | world.leaving()
    protectors = [
        policy.protects
        for policy in session.policies
        if policy.name not in right.past and says(policy, "protects")
    ]
    weighers = [policy.weighs for policy in session.policies if says(policy, "weighs")]
    usable = world.pool.usable if right.where is None else world.pool.usable & right.where
    everywhere = bool(usable.all())
    found = []
    for job in right.victims:
        placement = job.placement
        if placement is None or job.state not in EVICTABLE or job.id in spare or job.id in world.claims:
            continue
        if not everywhere and not usable[placement.nodes].any():
            continue
        for protects in protectors:
            if protects(world, job, request.job, now):
                break
        else:
            weight = 1
            for weighs in weighers:
                weight += weighs(world, job, now)
            found.append(Candidate(job, placement, weight))
    found.sort(key=lambda item: (item.weight, item.job.id))
    for number, item in enumerate(found):
        item.number = number
    return found
