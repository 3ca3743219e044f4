"""The cycle: ordered actions over a session, each trying bookings on a statement.

session = Session(world, policies, now)
run(session, actions)          # session.statement holds what to commit, session.refusals the rest
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from .demand import Demand
from .explain import misfit
from .placement import place
from .policy import Policy, default_policies
from .refusal import Refusal
from .statement import Statement
from .states import JobState
from .world import Job, World


@dataclass(slots=True)
class Session:
    """One cycle's view: the world, the policies, the time, the statement, and who was refused why."""

    world: World
    now: float
    policies: Sequence[Policy] = field(default_factory=default_policies)
    only: frozenset[str] | None = None
    """The jobs to look at; None: all that wait.  Those that were refused before stay refused while
    nothing has become free, so that a cycle for new jobs alone decides the same."""
    statement: Statement = field(init=False)
    refusals: dict[str, Refusal] = field(default_factory=dict)
    barred: bool = False
    """Whether a job that must not be passed ended the cycle."""

    def __post_init__(self) -> None:
        self.statement = Statement(self.world)

    def pending(self) -> list[Job]:
        """The jobs that this cycle looks at."""
        if self.only is None:
            return list(self.world.pending())
        jobs = (self.world.jobs.get(name) for name in self.only)
        return [job for job in jobs if job is not None and job.state is JobState.QUEUED]

    def rank(self, job: Job) -> tuple[float, ...]:
        """The job's place in the order of the policies."""
        return tuple(policy.rank(self.world, job, self.now) for policy in self.policies)

    def refused(self, job: Job, demand: Demand) -> Refusal | None:
        """The first policy's reason against the job."""
        for policy in self.policies:
            refusal = policy.refuses(self.world, job, demand)
            if refusal is not None:
                return refusal
        return None

    def bars(self, job: Job) -> bool:
        """Whether those behind the job have to wait for it."""
        return any(policy.bars(self.world, job, self.now) for policy in self.policies)


Action = Callable[[Session], None]


def run(session: Session, actions: Sequence[Action] | None = None) -> Session:
    """Runs the actions in order; an error in one undoes the whole cycle."""
    try:
        for action in actions if actions is not None else (allocate,):
            action(session)
    except BaseException:
        session.statement.rollback()
        raise
    return session


def allocate(session: Session) -> None:
    """Places waiting jobs, the best ranked first, each whole or not at all."""
    for job in _in_order(session):
        refusal = try_place(session, job)
        if refusal is None:
            session.refusals.pop(job.id, None)
            continue
        session.refusals[job.id] = refusal
        if refusal.limit != "queue cap" and not refusal.forever and session.bars(job):
            session.barred = True
            _tell_the_rest(session, job)
            return


def try_place(session: Session, job: Job) -> Refusal | None:
    """Books a place for the job; the reason where there is none."""
    world = session.world
    demand = job.demand
    refusal = session.refused(job, demand)
    if refusal is not None and demand.least < demand.count:
        demand = smallest(demand)
        refusal = session.refused(job, demand)
    if refusal is not None:
        return refusal
    known = world.misfits.get(demand)
    if known is not None and known[0] == world.pool.grown:
        return known[1]  # the pool has only shrunk since: no second try
    found = place(world.pool, demand)
    if found is not None:
        session.statement.take(job, found)
        return None
    reason = misfit(world, demand)
    world.misfits[demand] = world.pool.grown, reason
    return reason


def smallest(demand: Demand) -> Demand:
    """An elastic gang at its least size."""
    return replace(demand, groups=(replace(demand.groups[0], count=demand.least),))


def _in_order(session: Session) -> Iterable[Job]:
    """Waiting jobs by rank, ranks renewed as shares change.

    Jobs of one queue, tenant and priority keep their order whatever is placed, so only the first of
    each such lane is ranked.
    """
    lanes: dict[tuple[str, str, int], list[Job]] = {}
    for job in session.pending():
        lanes.setdefault((job.queue, job.tenant, job.priority), []).append(job)
    for lane in lanes.values():
        lane.sort(key=lambda job: (job.submitted_at, job.id), reverse=True)
    # An entry is as good as new while nothing was booked since it was ranked.
    heap = [(session.rank(lane[-1]), lane[-1].id, key, 0) for key, lane in lanes.items()]
    heapq.heapify(heap)
    while heap:
        rank, _, key, ranked_at = heap[0]
        lane = lanes[key]
        booked = len(session.statement.entries)
        if ranked_at != booked and (fresh := session.rank(lane[-1])) > rank:  # its share grew
            heapq.heapreplace(heap, (fresh, lane[-1].id, key, booked))
            continue
        yield lane.pop()
        if lane:
            booked = len(session.statement.entries)
            heapq.heapreplace(heap, (session.rank(lane[-1]), lane[-1].id, key, booked))
        else:
            heapq.heappop(heap)


def _tell_the_rest(session: Session, first: Job) -> None:
    behind = Refusal("order", "waits behind job {of}, which is due and must not be passed", of=first.id)
    for job in session.pending():
        if job.placement is None and job.id not in session.refusals:
            session.refusals[job.id] = behind
