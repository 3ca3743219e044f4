"""What if: the next cycle decided on a copy of the world in which something is different."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from l2_aistation._kit.problems import BadInput, NotFound

from .bounds import make
from .cycle import Session, run
from .demand import Demand
from .explain import impossible
from .forecast import estimate
from .frozen import Frozen, freeze, thaw
from .job import Job
from .policy import Policy
from .pool import Placement, Pool
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
    """`starts` is now, at, never or unknown; `victims` (job, tenant) would have to leave first.

    `at` is seconds since the epoch; `words` say why it does not start now.
    """

    starts: str
    at: float | None
    words: str
    placement: Placement | None = None
    pool: Pool | None = None
    victims: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A what-if with the world that it is about: `answer` needs nothing else, in whatever thread."""

    frozen: Frozen
    policies: tuple[Policy, ...]
    now: float
    change: Change
    name: str


def ask(world: World, policies: Sequence[Policy], now: float, change: Change, name: str) -> Answer:
    """Whether a waiting job would start; the world is left as it is.

    `BadInput` names what cannot be changed so, `NotFound` a job or queue that is not there.
    """
    return answer(question(world, policies, now, change, name))


def question(world: World, policies: Sequence[Policy], now: float, change: Change, name: str) -> Question:
    """The question with a copy of the world, for `answer`; errors as of `ask`."""
    _check(world, change, name)
    # Policies keep what they worked out for one world: this one gets its own.
    return Question(freeze(world), tuple(policy.fresh() for policy in policies), now, change, name)


def answer(asked: Question) -> Answer:
    """Tries the next cycle with the change in it."""
    now, change, name = asked.now, asked.change, asked.name
    other = thaw(asked.frozen, change.nodes)
    _apply(other, change, name)
    job = other.jobs[name]
    never = impossible(other, job.demand)
    if never is not None:
        return Answer("never", None, never.words())
    session = run(Session(other, now, asked.policies))
    decided = session.statement.commit()
    if job.placement is not None:
        return Answer("now", now, "it would start at once", job.placement, other.pool)
    claim = next(
        (entry.claim for entry in decided if isinstance(entry, ClaimMade) and entry.job is job), None
    )
    if claim is not None:
        leave = [entry.job for entry in decided if isinstance(entry, Eviction) and entry.claimant is job]
        victims = tuple((victim.id, victim.tenant) for victim in leave)
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
