"""What if: the next cycle decided on a copy of the world in which something is different."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from l2_aistation._kit.problems import BadInput, NotFound

from .bounds import make
from .cycle import Session, run
from .demand import Demand
from .explain import impossible
from .forecast import estimate
from .job import Job
from .policy import Policy
from .pool import Ints, Placement, Pool
from .refusal import Refusal
from .statement import ClaimMade, Eviction
from .states import JobState
from .world import World

MOST_NODES = 10_000


@dataclass(frozen=True, slots=True)
class Change:
    """What is different: more nodes like the largest, caps, jobs that are gone, the asked job itself.

    `count` and `accelerators` (of each task) resize its only group of tasks.
    """

    nodes: int = 0
    caps: Mapping[str, int] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    queue: str | None = None
    priority: int | None = None
    count: int | None = None
    accelerators: int | None = None
    time_s: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """`starts` is now, at, never or unknown; `victims` would have to leave first.

    `at` is seconds since the epoch; `words` say why it does not start now.
    """

    starts: str
    at: float | None
    words: str
    placement: Placement | None = None
    pool: Pool | None = None
    victims: tuple[str, ...] = ()


def ask(world: World, policies: Sequence[Policy], now: float, change: Change, name: str) -> Answer:
    """Whether a waiting job would start; the world is left as it is.

    `BadInput` names what cannot be changed so, `NotFound` a job or queue that is not there.
    """
    _check(world, change, name)
    other = branch(world, change.nodes)
    _apply(other, change, name)
    job = other.jobs[name]
    never = impossible(other, job.demand)
    if never is not None:
        return Answer("never", None, never.words())
    # Policies keep what they worked out for one world: this one gets its own.
    session = run(Session(other, now, [copy.deepcopy(policy) for policy in policies]))
    decided = session.statement.commit()
    if job.placement is not None:
        return Answer("now", now, "it would start at once", job.placement, other.pool)
    claim = next(
        (entry.claim for entry in decided if isinstance(entry, ClaimMade) and entry.job is job), None
    )
    if claim is not None:
        victims = tuple(
            entry.job.id for entry in decided if isinstance(entry, Eviction) and entry.claimant is job
        )
        return Answer(
            "now", now, "it would start as soon as others have left", claim.placement, other.pool, victims
        )
    return _later(session, job)


def _later(session: Session, job: Job) -> Answer:
    other = session.world
    refusal = session.refusals.get(job.id)
    if refusal is not None and refusal.forever:
        return Answer("never", None, refusal.words())
    words = "the next cycle looks at it" if refusal is None else refusal.words()
    if _wants_room(refusal) and job.id not in other.promises:
        make(session, job)
    at = estimate(other, job, refusal, session.now)
    promise = other.promises.get(job.id)
    place = None if promise is None else promise.placement
    return Answer("unknown" if at is None else "at", at, words, place, other.pool)


def _wants_room(refusal: Refusal | None) -> bool:
    from .actions.allocate import wants_room

    return refusal is not None and wants_room(refusal)


def branch(world: World, nodes: int = 0) -> World:
    """A copy of a world to try things on, with so many more nodes; jobs are copies too."""
    pool, moved = _more(world.pool, nodes) if nodes else (world.pool.copy(), None)
    other = World(pool, {name: replace(queue) for name, queue in world.queues.items()})
    for job in world.jobs.values():
        twin = copy.copy(job)
        twin.watcher = None
        placement, twin.placement = twin.placement, None
        other.jobs[twin.id] = twin
        if placement is not None:
            if moved is None:
                other.adopt(twin, placement)
            else:
                other.take(twin, replace(placement, nodes=moved[placement.nodes]))
    if moved is None:
        _claims(world, other)
        other.promises.update(world.promises)
        other.verdicts.update(world.verdicts)
    else:
        for name, claim in world.claims.items():
            place = replace(claim.placement, nodes=moved[claim.placement.nodes])
            other.claim(other.jobs[name], replace(claim, placement=place))
        for name, promise in world.promises.items():
            place = replace(promise.placement, nodes=moved[promise.placement.nodes])
            other.promises[name] = replace(promise, placement=place)
    for name in ("evicted", "windows", "ended"):
        getattr(other, name).update(getattr(world, name))
    other.run_times = world.run_times
    other.decay = copy.deepcopy(world.decay)
    other.bookings = world.bookings + 1
    return other


def _claims(world: World, other: World) -> None:
    """Claims as they stand: what they have withdrawn is in the copied books already."""
    for name, claim in world.claims.items():
        other.claims[name], other.holds[name] = claim, world.holds[name].copy()
        other.waiting.refresh(other.jobs[name], gone=True)
        other.count(other.jobs[name], claim.placement, 1)


def _more(pool: Pool, nodes: int) -> tuple[Pool, Ints]:
    """A pool with more nodes like its largest, empty but for its marks, and the new numbers of the old."""
    largest = max(pool.facts, key=lambda node: (len(node.accelerators), node.cpu_cores, node.id))
    extra = [
        replace(largest, id=f"what-if-{number}", leaf=f"what-if-{number // 32}", spare=False)
        for number in range(nodes)
    ]
    made = Pool([*pool.facts, *extra], pool.reserve_bytes)
    moved = np.array([made.index[node.id] for node in pool.facts], dtype=np.int64)
    for name in ("up", "cordoned", "spare", "weak", "weak_rails"):
        getattr(made, name)[moved] = getattr(pool, name)
    made.up[[made.index[node.id] for node in extra]] = True
    for name, mask in pool.cached.items():
        made.set_cached(name, [pool.facts[place].id for place in np.flatnonzero(mask).tolist()])
    return made, moved


def _check(world: World, change: Change, name: str) -> None:
    job = world.jobs.get(name)
    if job is None:
        raise NotFound(f"no job {name!r} waits", do="`aistation jobs` lists yours")
    if not job.waits:
        raise BadInput(f"job {name} is {job.state}", field="job", do="ask about one that waits")
    if (change.count or change.accelerators) and len(job.demand.groups) > 1:
        raise BadInput("only a gang of one group of tasks can be resized", field="count")
    missing = [other for other in change.without if other not in world.jobs]
    if missing:
        raise BadInput(f"no job {missing[0]!r}", field="without")
    for queue in [*change.caps, *([change.queue] if change.queue is not None else [])]:
        if queue not in world.queues:
            raise BadInput(f"no queue {queue!r}", field="queue", do="`aistation queues` lists them")
    _check_numbers(change)


def _check_numbers(change: Change) -> None:
    if not 0 <= change.nodes <= MOST_NODES:
        raise BadInput(f"must lie within 0 and {MOST_NODES}", field="nodes")
    numbers = {"count": change.count, "accelerators": change.accelerators, "time_s": change.time_s}
    for name, value in numbers.items():
        if value is not None and value <= 0:
            raise BadInput("must be above 0", field=name)
    if any(cap < 0 for cap in change.caps.values()):
        raise BadInput("must not be below 0", field="caps")


def _apply(other: World, change: Change, name: str) -> None:
    for queue, cap in change.caps.items():
        other.put_queue(replace(other.queues[queue], cap_accelerators=cap))
    for gone in change.without:
        if gone != name:
            _cancel(other, other.jobs[gone])
    job = other.jobs[name]
    if name in other.claims and change != Change():
        other.release(job)
    if change.queue is not None:
        job.queue = change.queue
    if change.priority is not None:
        job.priority = change.priority
    if change.time_s is not None:
        job.time_s = change.time_s
    if change.count is not None or change.accelerators is not None:
        del other.jobs[name]
        job.demand = _resized(job.demand, change)
        other.jobs[name] = job


def _resized(demand: Demand, change: Change) -> Demand:
    group = demand.groups[0]
    count = group.count if change.count is None else change.count
    least = min(demand.least, count) if demand.least < demand.count else count
    each = group.accelerators if change.accelerators is None else change.accelerators
    return replace(demand, groups=(replace(group, count=count, accelerators=each),), least=least)


def _cancel(other: World, job: Job) -> None:
    if job.placement is not None:
        other.give(job)
    job.state = JobState.CANCELLED
    other.forget(job.id)
