"""What a cycle sees: queues, jobs and who holds how much."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .amount import Amount, amount_of
from .claims import Claim, Hold, room_for
from .decay import Decay
from .demand import Demand
from .estimates import RunTimes
from .job import Job, Jobs
from .ledger import UNPLANNED, Ledger
from .pool import Placement, Pool, Totals
from .promise import Promise
from .queue import Cells, Queue, Tree, check_queue
from .refusal import Refusal
from .states import FINAL, JobState
from .waiting import Waiting
from .windows import Window

__all__ = ["Amount", "Cells", "Claim", "Job", "Queue", "World", "amount_of"]

PLANNED_BY = frozenset({"state", "started_at", "time_s", "preemptible", "ran_s"})
"""Attributes of a job that its planned end depends on."""

MOST_ENDED = 20_000
"""Ended jobs whose end is remembered here; older ones are in the store."""


@dataclass
class World:
    """All that a cycle decides on.

    `jobs` may be given as any mapping; what is put in is watched, so that `waiting` is always right.
    """

    pool: Pool
    queues: dict[str, Queue] = field(default_factory=Tree)
    jobs: Jobs = field(default_factory=dict)  # type: ignore[assignment]
    by_queue: dict[str, Amount] = field(default_factory=dict)
    """What each queue holds with its children, claims included."""
    by_tenant: dict[str, Amount] = field(default_factory=dict)
    by_user: dict[tuple[str, str, str], Amount] = field(default_factory=dict)
    """What each user holds in each queue (queue, tenant, owner)."""
    claims: dict[str, Claim] = field(default_factory=dict)
    """Places that are kept for jobs until others have gone; change it by `claim` and `release`."""
    holds: dict[str, Hold] = field(default_factory=dict)
    """What each claim has withdrawn from the pool."""
    evicted: dict[tuple[str, str], float] = field(default_factory=dict)
    """(claimant, victim) -> when.  No pair evicts twice, and no chain of pairs closes to a cycle."""
    unheard: dict[tuple[object, ...], tuple[float, float]] = field(default_factory=dict)
    """Action and kind of claimant -> when victims were last looked for in vain, and how long not again.

    It only saves time: a snapshot leaves it out and clears it.
    """
    decay: Decay = field(default_factory=Decay)
    """What each queue held over the time before, the longer ago the less."""
    journal: list[tuple[Any, ...]] | None = None
    """Where changes are noted, if anybody wants them."""
    misfits: dict[Demand, tuple[int, Refusal]] = field(default_factory=dict)
    """Demands that found no place: the pool's growth count at that time, and why."""
    verdicts: dict[Demand, Refusal | None] = field(default_factory=dict)
    """Whether a demand could ever fit; valid for this pool."""
    promises: dict[str, Promise] = field(default_factory=dict)
    """Starts that were promised to waiting jobs, and the places kept for them."""
    windows: dict[str, Window] = field(default_factory=dict)
    """Reservations and maintenance."""
    run_times: RunTimes = field(default_factory=RunTimes)
    ended: dict[str, tuple[JobState, bool]] = field(default_factory=dict)
    """How jobs that are gone ended, and whether they ever ran: for those that depend on them."""
    array_running: dict[str, int] = field(default_factory=dict)
    """Placed jobs of each array."""
    holding: dict[str, Job] = field(init=False, default_factory=dict)
    """The jobs that hold nodes."""
    by_leaf: dict[str, dict[str, Job]] = field(init=False, default_factory=dict)
    """The same by the queue that they are in."""
    ruled: dict[str, Job] = field(init=False, default_factory=dict)
    """Those of them that keep apart from others."""
    elastic: dict[str, Job] = field(init=False, default_factory=dict)
    """Those of them that run at more than one size."""
    amounts: dict[str, Amount] = field(init=False, default_factory=dict)
    """What each of them holds."""
    bookings: int = field(init=False, default=0)
    """Counts the changes of the books."""
    turn: object = field(init=False, default_factory=object)
    """Another one for each session: what policies worked out holds while it and `bookings` stand."""
    ledger: Ledger = field(init=False, default_factory=Ledger)
    """What they hold, rank by rank, with the planned end of each."""
    touched: set[str] = field(init=False, default_factory=set)
    """Jobs that changed, for whoever writes that down."""
    waiting: Waiting = field(init=False, default_factory=Waiting)
    """The queued jobs, in lanes of like ones."""
    empty: Pool = field(init=False)
    """The same nodes, all alive and nothing held."""
    totals: Totals = field(init=False)

    def __post_init__(self) -> None:
        self.empty = Pool(self.pool.facts, self.pool.reserve_bytes)
        self.empty.up[:] = True
        self.totals = self.pool.totals()
        self.jobs.update(self.__dict__.pop("given"))

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "jobs":
            self.__dict__[name] = Tree(value) if name == "queues" else value
            return
        self.__dict__["jobs"] = Jobs(self.changed)
        if "totals" not in self.__dict__:  # it is being made: they are taken in at the end
            self.__dict__["given"] = value
            return
        self.__dict__["waiting"] = Waiting()
        self.jobs.update(value)

    def changed(self, job: Job, what: str) -> None:
        """Notes that a job came, went, or has another value of a decisive attribute."""
        gone = what == "gone"
        self.touched.add(job.id)
        self.waiting.refresh(job, gone=gone or job.id in self.claims)
        if not job.waits or gone:
            self.promises.pop(job.id, None)
        if what in PLANNED_BY and job.id in self.ledger.spans:  # the plan of its end falls
            job.planned_until = None
            self.ledger.plan(job, UNPLANNED)
        if gone:
            self._dropped(job)
        if what == "queue" and (job.placement is not None or job.id in self.claims):
            self.recount()
        if gone and job.state in FINAL:
            self.ended[job.id] = job.state, job.started_at is not None
            if len(self.ended) > MOST_ENDED:
                del self.ended[next(iter(self.ended))]

    def note(self, *entry: Any) -> None:
        """An entry of the journal."""
        if self.journal is not None:
            self.journal.append(entry)

    def pending(self) -> Iterable[Job]:
        """The jobs that wait for a place; not those that have a claim on one."""
        return (job for job in self.jobs.waiting() if job.id not in self.claims)

    def holders(self) -> Iterable[Job]:
        """The jobs that hold nodes."""
        return self.holding.values()

    def leaving(self) -> set[str]:
        """The jobs that somebody's claim waits for."""
        return {victim for claim in self.claims.values() for victim in claim.victims}

    # -- places ----------------------------------------------------------------------------------

    def take(self, job: Job, placement: Placement) -> None:
        """Books a placement for a job; whole or not at all."""
        self.pool.take(placement)
        self.adopt(job, placement)

    def adopt(self, job: Job, placement: Placement) -> None:
        """Takes in a job whose placement is in the pool's books already."""
        job.placement = placement
        self._enter(job)
        self.ledger.add(job, placement)
        self.waiting.refresh(job)
        if job.array is not None:
            self.array_running[job.array] = self.array_running.get(job.array, 0) + 1
        self.count(job, placement, 1)

    def give(self, job: Job) -> Placement:
        """Gives a job's placement back and returns it; what a claim names of it goes to the claim."""
        placement = job.placement
        if placement is None:
            raise ValueError(f"job {job.id} holds nothing")
        self.pool.give(placement)
        self.count(job, placement, -1)
        job.placement = None
        self._leave(job)
        self.ledger.drop(job)
        job.planned_until = None
        self.waiting.refresh(job, gone=job.id not in self.jobs or job.id in self.claims)
        if job.array is not None:
            self.array_running[job.array] = self.array_running.get(job.array, 0) - 1
        for hold in self.holds.values():
            if not hold.complete:
                hold.advance(self.pool)
        return placement

    def claim(self, job: Job, claim: Claim) -> None:
        """Keeps a place for a job: from now on it is nobody else's."""
        if job.id in self.claims:
            raise ValueError(f"job {job.id} has a claim already")
        hold = Hold(claim.placement)
        hold.begin(self.pool)
        self.claims[job.id] = claim
        self.holds[job.id] = hold
        self.waiting.refresh(job, gone=True)
        self.count(job, claim.placement, 1)

    def release(self, job: Job) -> Claim:
        """Takes a job's claim away and returns it; the job waits like any other again."""
        claim = self.claims.pop(job.id)
        self.holds.pop(job.id).end(self.pool)
        self.count(job, claim.placement, -1)
        self.waiting.refresh(job, gone=job.id not in self.jobs)
        for hold in self.holds.values():
            if not hold.complete:
                hold.advance(self.pool)
        return claim

    def ripe(self, job: Job) -> bool:
        """Whether all of a claimed place is free, so that the claimant can start there."""
        hold = self.holds[job.id]
        return hold.complete and room_for(self.pool, hold.placement)

    def forget(self, name: str) -> None:
        """Drops a job that has ended, with its claim and what is known of its evictions."""
        self.jobs.pop(name, None)

    def _dropped(self, job: Job) -> None:
        if job.id in self.claims:
            self.release(job)
        for pair in [pair for pair in self.evicted if job.id in pair]:
            del self.evicted[pair]

    # -- evictions -------------------------------------------------------------------------------

    def spared_by(self, claimant: str) -> set[str]:
        """Whom a claimant may not evict: whom it has evicted before, and whoever evicted it.

        Also who evicted one of those who evicted it, and so on: no chain of evictions ever closes.
        """
        evictors: dict[str, list[str]] = {}
        spared = set()
        for first, second in self.evicted:
            evictors.setdefault(second, []).append(first)
            if first == claimant:
                spared.add(second)
        above = {claimant}
        stack = [claimant]
        while stack:
            for name in evictors.get(stack.pop(), ()):
                if name not in above:
                    above.add(name)
                    stack.append(name)
        return spared | above

    def may_evict(self, claimant: str, victim: str) -> bool:
        """Whether it would be the first time, and closes no chain of evictions."""
        return victim not in self.spared_by(claimant)

    # -- queues ----------------------------------------------------------------------------------

    @property
    def tree(self) -> Tree:
        """The queues, and what each has from those above it."""
        return self.queues  # type: ignore[return-value]  # __setattr__ sees to it

    def lineage(self, name: str) -> tuple[str, ...]:
        """A queue and those above it, up to the root."""
        return self.tree.line(name)

    def put_queue(self, queue: Queue) -> None:
        """Adds a queue or changes one; `BadInput` where it does not fit into the tree."""
        check_queue(self.queues, queue)
        before = self.queues.get(queue.name)
        self.queues[queue.name] = queue
        if before is None or before.parent != queue.parent:
            self.recount()

    def remove_queue(self, name: str) -> None:
        """Takes a queue without jobs and children out."""
        if any(queue.parent == name for queue in self.queues.values()):
            raise ValueError(f"queue {name} has children")
        if any(job.queue == name for job in self.jobs.values()):
            raise ValueError(f"queue {name} has jobs")
        del self.queues[name]
        self.recount()

    def advance(self, now: float) -> None:
        """Moves the memory of what queues held to now."""
        self.turn = object()
        self.decay.advance(now, self.by_queue)

    def usage_share(self, name: str) -> float:
        """The dominant share of the pool that a queue held in the mean, the past fading."""
        milli, cpu, memory = self.decay.of(name)
        mean = Amount(round(milli), round(cpu), round(memory))
        queue = self.queues.get(name)
        return mean.dominant_share(self.totals, () if queue is None else queue.unlimited)

    def recount(self) -> None:
        """Counts anew who holds how much."""
        for books in (self.by_queue, self.by_tenant, self.by_user, self.by_leaf, self.amounts):
            books.clear()
        for job in list(self.holding.values()):
            assert job.placement is not None
            self._enter(job)
            self.count(job, job.placement, 1)
        for name, claim in self.claims.items():
            self.count(self.jobs[name], claim.placement, 1)

    def amount(self, job: Job) -> Amount:
        """What a job that holds nodes holds."""
        known = self.amounts.get(job.id)
        if known is None:
            assert job.placement is not None
            known = self.amounts[job.id] = amount_of(job.placement, self.pool)
        return known

    def count(self, job: Job, placement: Placement, sign: int) -> None:
        """Adds a placement to the books of its queue, tenant and user, or takes it off."""
        self.touched.add(job.id)
        self.bookings += 1
        amount = self.amount(job) if placement is job.placement else amount_of(placement, self.pool)
        for name in self.tree.line(job.queue):
            _book(self.by_queue, name).add(amount, sign)
            _book(self.by_user, (name, job.tenant, job.owner)).add(amount, sign)
        _book(self.by_tenant, job.tenant).add(amount, sign)

    def _enter(self, job: Job) -> None:
        self.holding[job.id] = job
        self.by_leaf.setdefault(job.queue, {})[job.id] = job
        if job.demand.rules is not None and job.demand.rules.apart:
            self.ruled[job.id] = job
        if job.demand.least < job.demand.count:
            self.elastic[job.id] = job

    def _leave(self, job: Job) -> None:
        del self.holding[job.id]
        del self.by_leaf[job.queue][job.id]
        self.amounts.pop(job.id, None)
        self.ruled.pop(job.id, None)
        self.elastic.pop(job.id, None)

    def rebuilt(self) -> World:
        """The same world made anew from its facts: the yardstick of the running one."""
        holds = [piece for hold in self.holds.values() for piece in hold.pieces]
        held = [job.placement for job in self.holders() if job.placement is not None]
        fresh = World(self.pool.rebuilt([*held, *holds]), dict(self.queues))
        for job in self.holders():
            if job.placement is not None:
                fresh.count(job, job.placement, 1)
        for name, claim in self.claims.items():
            fresh.count(self.jobs[name], claim.placement, 1)
        return fresh

    def same_books(self, other: World) -> bool:
        """Whether two worlds agree on every booked amount."""
        mine = [_kept(books) for books in (self.by_queue, self.by_tenant, self.by_user)]
        theirs = [_kept(books) for books in (other.by_queue, other.by_tenant, other.by_user)]
        return mine == theirs and self.pool.same_books(other.pool)


def _book(books: dict[Any, Amount], key: Any) -> Amount:
    amount = books.get(key)
    if amount is None:
        amount = books[key] = Amount()
    return amount


def _kept(books: dict[Any, Amount]) -> dict[Any, Amount]:
    nothing = Amount()
    return {key: amount for key, amount in books.items() if amount != nothing}
