"""The cycle: ordered actions over a session, each trying entries on a statement.

session = Session(world, now, policies)
run(session)          # session.statement holds what to commit, session.refusals the rest
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any, cast

from .demand import Demand
from .dependencies import refuses as waits_for
from .job import Job
from .placement import Fragmentation, typical_classes
from .policy import Policy, Rule, default_policies
from .pool import Bools, Placement
from .promise import Promise
from .refusal import Refusal
from .statement import Statement
from .timeline import Timeline, gap_end
from .turns import Turns
from .waiting import Kind, Lane
from .windows import refusal as reservation_refusal
from .world import World


class Refusals(Mapping[str, Refusal]):
    """Why waiting jobs do not start, by job; like jobs share one answer."""

    def __init__(self, world: World) -> None:
        self.world = world

    def __getitem__(self, name: str) -> Refusal:
        claim = self.world.claims.get(name)
        if claim is not None:
            left = sum(1 for victim in claim.victims if victim not in self.world.holding)
            words = "its place is kept; {free} of {needed} {unit} that hold it have stopped"
            return Refusal("claim", words, needed=len(claim.victims), free=left, unit="jobs")
        found = self.world.waiting.refusal(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        waiting = self.world.waiting
        return (name for name, lane in waiting.of.items() if lane.refusal is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(slots=True)
class Session:
    """One cycle's view: the world, the policies, the time, the statement, and who was refused why."""

    world: World
    now: float
    policies: Sequence[Policy] = field(default_factory=default_policies)
    only: frozenset[str] | None = None
    """The jobs to look at; None: all that wait.  Those that were refused before stay refused while
    nothing has become free, so that a cycle for new jobs alone decides the same."""
    words: bool = True
    """Whether refusals name amounts; a simulation of millions of them goes without."""
    statement: Statement = field(init=False)
    refusals: Refusals = field(init=False)
    told: list[tuple[Job, Refusal]] = field(default_factory=list)
    """Jobs that are refused by another limit than before, or for the first time."""
    promised: dict[str, Promise | None] = field(default_factory=dict)
    """Promises that this cycle made, moved or (None) dropped."""
    barred: bool = False
    """Whether a job that must not be passed ended the cycle."""
    turns: Turns | None = None
    blocked: list[tuple[tuple[object, ...], Lane]] | None = None
    """Kinds of jobs that find no room, once those that find some are placed."""
    misfits: dict[tuple[Demand, frozenset[str]], int] = field(default_factory=dict)
    """For each demand that found no place, and the promises that it may delay: how many others it had
    to leave room for, at least."""
    timelines: dict[frozenset[str], Timeline] = field(default_factory=dict)
    stale: bool = False
    """Whether a promise may have been broken since the last look."""
    asked: dict[str, tuple[Policy, ...]] = field(init=False)
    """For each question, the policies that have an answer of their own."""
    limited: dict[str, bool] = field(default_factory=dict)
    _outranked: dict[Hashable, frozenset[str]] = field(default_factory=dict)
    _barred: set[tuple[Demand, frozenset[str]]] = field(default_factory=set)
    _score: Fragmentation | None = None
    _promises: dict[str, Promise] | None = None

    def __post_init__(self) -> None:
        self.world.advance(self.now)
        self.statement = Statement(self.world)
        self.refusals = Refusals(self.world)
        kinds = tuple([type(policy) for policy in self.policies])
        self.asked = {
            question: tuple([self.policies[number] for number in numbers])
            for question, numbers in _answering(kinds).items()
        }

    # -- whose turn --------------------------------------------------------------------------------

    def lanes(self) -> list[Lane]:
        """The lanes that this cycle looks at."""
        waiting = self.world.waiting
        if self.only is None:
            return list(waiting.lanes.values())
        found = {id(lane): lane for name in self.only if (lane := waiting.of.get(name)) is not None}
        return list(found.values())

    def order(self) -> Turns:
        """The lanes in their order; one action goes on where the one before it stopped."""
        if self.turns is None:
            names = self._ranks_by()
            whole = names is not None and self.only is None and OF_A_KIND.issuperset(names)
            lanes: Iterable[Lane | Kind] = self.world.waiting.kinds.values() if whole else self.lanes()
            self.turns = Turns(lanes, self.rank, lambda: len(self.statement.entries), _group(names))
        return self.turns

    def _ranks_by(self) -> list[str] | None:
        """What a rank depends on besides the time of submission; None where a policy does not say."""
        names: list[str] = []
        for number, policy in enumerate(self.asked["rank"], 1):
            known = getattr(policy, "ranks_by", None)
            if known is None or ("submitted_at" in known and number < len(self.asked["rank"])):
                return None
            names += [name for name in known if name != "submitted_at"]
        return names

    def rank(self, job: Job) -> tuple[Any, ...]:
        """The job's place in the order of the policies."""
        return tuple([policy.rank(self.world, job, self.now) for policy in self.asked["rank"]])

    # -- what policies say -------------------------------------------------------------------------

    def refused(self, job: Job, demand: Demand) -> Refusal | None:
        """The first reason against the job, whatever room there is."""
        if job.depends_on or job.not_before is not None or job.most_running is not None:
            waits = waits_for(self.world, job, self.now)
            if waits is not None:
                return waits
        if job.reservation is not None:
            closed = reservation_refusal(self.world.windows, job, self.now)
            if closed is not None:
                return closed
        for policy in self.asked["refuses"]:
            refusal = policy.refuses(self.world, job, demand)
            if refusal is not None:
                return refusal
        return None

    def bars(self, job: Job) -> bool:
        """Whether those behind the job have to wait for it."""
        return any(policy.bars(self.world, job, self.now) for policy in self.asked["bars"])

    def reserves(self, job: Job) -> bool:
        """Whether a job that finds no place gets a start promised."""
        return any(policy.reserves(self.world, job, self.now) for policy in self.asked["reserves"])

    def outranked(self, job: Job) -> frozenset[str]:
        """The jobs whose promises this one may delay."""
        promises = self.world.promises
        key = self._outranks_by(job)
        found = self._outranked.get(key)
        if found is None:
            jobs = self.world.jobs
            found = frozenset([name for name in promises if self._outranks(job, jobs[name])])
            if key is not None:
                self._outranked[key] = found
        return found | {job.id} if job.id in promises else found

    def _outranks_by(self, job: Job) -> Hashable:
        """What the answers depend on; None where a policy does not say."""
        names: list[str] = []
        for policy in self.asked["outranks"]:
            known = getattr(policy, "outranks_by", None)
            if known is None:
                return None
            names += known
        return tuple([getattr(job, name) for name in names])

    def _outranks(self, job: Job, other: Job) -> bool:
        return any(policy.outranks(self.world, job, other, self.now) for policy in self.asked["outranks"])

    def protects(self, victim: Job, claimant: Job) -> bool:
        """Whether a running job must not be asked to leave for another one now."""
        asked = self.asked["protects"]
        return any(policy.protects(self.world, victim, claimant, self.now) for policy in asked)

    def places(self, job: Job) -> Sequence[Bools] | None:
        """Sets of nodes to try one after the other; None where every node will do.

        Where several policies have their say, sets are met in the order of the policies.
        """
        chosen: list[Bools] | None = None
        for policy in self.asked["where"]:
            found = policy.where(self.world, job)
            if found is not None:
                chosen = list(found) if chosen is None else [mine & its for mine in chosen for its in found]
        return chosen

    def score(self, demand: Demand) -> Fragmentation | None:
        """For a task that shares an accelerator: what its place costs the kinds of jobs that are here."""
        if demand.count != 1 or not demand.groups[0].part:
            return None
        if self._score is None:
            world = self.world
            holding = ((job.demand, 1) for job in world.holding.values())
            waiting = ((lane.demand, len(lane.entries)) for lane in world.waiting.lanes.values())
            self._score = Fragmentation(world.pool, typical_classes(chain(waiting, holding)))
        return self._score

    # -- books -------------------------------------------------------------------------------------

    def timeline(self, ignored: frozenset[str] = frozenset()) -> Timeline:
        """The future as planned now, the promises of some jobs left out."""
        found = self.timelines.get(ignored)
        if found is None or found.version != self.world.ledger.version:
            found = self.timelines[ignored] = Timeline(self.world, self.now, ignored, keep=True)
        return found

    def book(self, job: Job, placement: Placement) -> None:
        """Gives a job its place."""
        self.statement.take(job, placement)
        if not self.timelines:
            return
        end = gap_end(self.world, job, self.now)
        kept_own = job.id in self.world.promises
        for ignored, timeline in list(self.timelines.items()):
            if kept_own or not timeline.book(job, placement, end):
                del self.timelines[ignored]

    def promise(self, job: Job, promise: Promise | None, why: str = "") -> None:
        """Promises a start, moves one (and says why), or drops it."""
        world = self.world
        if self._promises is None:
            self._promises = dict(world.promises)
        if promise is None:
            world.promises.pop(job.id, None)
        else:
            world.promises[job.id] = promise
        self.promised[job.id] = promise
        self.timelines.clear()
        self.misfits.clear()
        self._barred.clear()
        self._outranked.clear()
        if promise is not None and (job.promised_at is None or promise.at != job.promised_at):
            job.promise = why
            job.promised_at = promise.at

    def refuse(self, lane: Lane, refusal: Refusal) -> None:
        """Notes why the jobs of a lane do not start."""
        self.told += lane.refuse(refusal)

    def close(self, lane: Lane, refusal: Refusal) -> None:
        """Refuses all lanes that ask for the same as one that found no room and differ in nothing else."""
        world, demand = self.world, lane.demand
        if not lane.plain or self.only is not None or self.asked["bars"] or world.windows:
            return
        if refusal.limit == "promise":
            self._close_promised(lane, refusal)
            return
        known = world.misfits.get(demand)
        if known is not None and known[1] is refusal and known[0] == world.pool.grown:
            for kind in list(world.waiting.alike[demand].values()):
                if kind.plain and not self._limited(kind.queue):
                    self._close(kind, refusal)

    def _close_promised(self, lane: Lane, refusal: Refusal) -> None:
        """Those that would stay as long, or longer, and may delay the same promises."""
        ignored = self.outranked(lane.first)
        least = self.misfits.get((lane.demand, ignored))
        if least is None or (lane.demand, ignored) in self._barred or self._limited(lane.first.queue):
            return
        self._barred.add((lane.demand, ignored))
        timeline, now, world = self.timeline(ignored), self.now, self.world
        for kind in list(world.waiting.alike[lane.demand].values()):
            head = kind.head() if kind.plain else None
            if head is None or self.outranked(head.first) != ignored or self._limited(kind.queue):
                continue
            lanes = list(kind.lanes.values())
            alike = [
                other for other in lanes if timeline.kept_before(gap_end(world, other.first, now)) >= least
            ]
            for item in (kind,) if len(alike) == len(lanes) else alike:
                self._close(item, refusal)

    def _close(self, item: Lane | Kind, refusal: Refusal) -> None:
        self.order().close(item)
        self.told += item.refuse(refusal)

    def _limited(self, queue: str) -> bool:
        """Whether a policy may have more to say about plain jobs of a queue."""
        known = self.limited.get(queue)
        if known is None:
            asked = {*self.asked["refuses"], *self.asked["where"]}
            known = self.limited[queue] = any(policy.limits(self.world, queue) for policy in asked)
        return known

    def undo(self) -> None:
        """Takes all of it back."""
        self.statement.rollback()
        if self._promises is not None:
            self.world.promises.clear()
            self.world.promises.update(self._promises)


OF_A_KIND = frozenset({"queue", "tenant", "priority", "demand", "ran_s"})
"""Attributes in which jobs of a kind do not differ (a minute of run time does not count)."""


def _group(names: Sequence[str] | None) -> Callable[[Lane], Hashable] | None:
    """Lanes of equal attributes are ranked alike."""
    if names is None:
        return None
    if not names:
        return lambda _lane: None
    read = attrgetter(*names)
    return lambda lane: cast("Hashable", read(lane.entries[0][2]))


QUESTIONS = ("rank", "refuses", "bars", "reserves", "outranks", "where", "protects", "rights")


@lru_cache(maxsize=256)
def _answering(kinds: tuple[type[Policy], ...]) -> dict[str, tuple[int, ...]]:
    """For each question, the places of the policies that do not leave it to `Rule`."""
    answers: dict[str, tuple[int, ...]] = {}
    for question in QUESTIONS:
        nothing = getattr(Rule, question)
        own = [number for number, kind in enumerate(kinds) if getattr(kind, question, nothing) is not nothing]
        answers[question] = tuple(own)
    return answers


Action = Callable[[Session], None]


def run(session: Session, actions: Sequence[Action] | None = None) -> Session:
    """Runs the actions in order; an error in one undoes the whole cycle."""
    from .actions import default_actions

    try:
        for action in actions if actions is not None else default_actions():
            action(session)
    except BaseException:
        session.undo()
        raise
    return session
