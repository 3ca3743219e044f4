"""The platform's memory: the world, live attempts, and what this pass of the loop changed.

Everything here is rebuilt from the store by `load`; nothing is kept that the store does not have,
but for heartbeats and the reasons of waiting jobs, which the next seconds renew.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from l2_aistation.core.attempt import Attempt
from l2_aistation.core.claims import Claim
from l2_aistation.core.demand import demand_of
from l2_aistation.core.events import Command, Condition
from l2_aistation.core.journal import Recorder, snapshot
from l2_aistation.core.metering import held_by_model
from l2_aistation.core.pool import ClusterFacts, NodeFacts, Pool, Slot
from l2_aistation.core.queue import Tree
from l2_aistation.core.states import (
    FINAL,
    AttemptEvent,
    AttemptState,
    JobEvent,
    JobState,
    next_attempt,
    next_job,
)
from l2_aistation.core.windows import Window
from l2_aistation.core.world import Job, Queue, World
from l2_aistation.documents import JobSpec
from l2_aistation.ports import ClusterSource
from l2_aistation.settings import Settings
from l2_aistation.store import Batch, Store
from l2_aistation.store.rows import dump, past_job, slots_of, slots_text

from .specs import fields_of

DEFAULT_QUEUE = "default"
IDS = random.Random(os.urandom(32))
"""Not a secret: who guesses the id of another tenant's job sees nothing of it."""

PORT_TRIES = 64
LESSONS = frozenset({"completed", "time_limit"})
"""Causes of an end that say how long such a job runs."""

SAME_COLUMNS = (
    "id",
    "tenant",
    "owner",
    "name",
    "queue",
    "priority",
    "submitted_at",
    "started_at",
    "ended_at",
    "version",
    "attempt",
    "why",
    "cause",
    "spec_digest",
    "promised_at",
    "ran_s",
    "array",
    "array_index",
)
"""Columns of a job's row that are the job's fields as they are."""
SPECS_KEPT = 512


@dataclass
class Platform:
    """One scheduler's state.  Only the loop's thread touches it."""

    store: Store
    settings: Settings
    source: ClusterSource
    clock: Callable[[], float]
    new_id: Callable[[str], str] = field(default=lambda name: f"{name}-{IDS.getrandbits(48):012x}")
    world: World = field(init=False)
    facts: ClusterFacts = field(init=False)
    recorder: Recorder = field(init=False)
    decisions: int = 0
    attempts: dict[str, Attempt] = field(default_factory=dict)
    cordons: dict[str, str] = field(default_factory=dict)
    turned_bad: dict[str, float] = field(default_factory=dict)
    """When nodes were found bad; kept nowhere: after a restart their beats say it again."""
    seen: dict[str, float] = field(default_factory=dict)
    boots: dict[str, str] = field(default_factory=dict)
    conditions: dict[str, Condition] = field(default_factory=dict)
    """What nodes last said of themselves."""
    warm: dict[str, str] = field(default_factory=dict)
    sent_at: dict[str, float] = field(default_factory=dict)
    batch: Batch = field(default_factory=Batch)
    outbox: list[Command] = field(default_factory=list)
    dirty: bool = True
    fresh: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    ports: Counter[int] = field(default_factory=Counter)
    next_port: int = 0
    specs: dict[str, JobSpec] = field(default_factory=dict)
    devices: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """For each node, the index of each of its accelerators on that machine."""
    started_at: float = 0.0

    def load(self) -> None:
        """Rebuilds everything from the store."""
        self.batch, self.outbox, self.dirty = Batch(), [], True
        self.fresh.clear()
        self.warm.clear()
        self.next_port = int(self.clock())  # not the ports that were used just before a restart
        self.facts = self.store.cluster() or self.source.cluster()
        self.cordons = self.store.cordons()
        queues = Tree((queue.name, queue) for queue in self.store.queues())
        self.world = World(self._pool(self.facts), queues)
        if DEFAULT_QUEUE not in queues:
            self.put_queue(Queue(DEFAULT_QUEUE))
        self.attempts = {attempt.job: attempt for attempt in self.store.live_attempts()}
        self.ports = Counter(attempt.master_port for attempt in self.attempts.values())
        self.held = {name for name, item in self.attempts.items() if item.state is AttemptState.HELD}
        for row in self.store.live_jobs():
            self._load_job(row)
        self._load_policy()
        self.begin_journal()

    def _pool(self, facts: ClusterFacts) -> Pool:
        self.conditions.clear()  # the next heartbeats say it of the new pool
        self.devices = {node.id: tuple(item.index for item in node.accelerators) for node in facts.nodes}
        pool = Pool(facts.nodes, self.settings.accelerator_reserve_bytes, facts.weak_leaves)
        for node in facts.nodes:
            pool.set_up(node.id, value=node.id in self.seen)
            pool.set_cordoned(node.id, value=node.id in self.cordons)
        return pool

    def _load_job(self, row: Any) -> None:
        spec = JobSpec.model_validate_json(row["spec"])
        attempt = self.attempts.get(row["id"])
        job = Job(
            **{name: row[name] for name in SAME_COLUMNS},
            demand=demand_of(spec),
            state=JobState(row["state"]),
            target=None if row["target"] is None else JobState(row["target"]),
            spec_text=row["spec"],
            **fields_of(spec),
        )
        self.world.jobs[job.id] = job
        if job.queue not in self.world.queues:
            self.put_queue(Queue(job.queue))
        if attempt is not None:
            job.last_checkpoint_at = attempt.checkpoint_at
            self.world.take(job, self.world.pool.placement(attempt.slots, job.demand.tasks))

    def begin_journal(self) -> None:
        """From here on decisions are written so that they can be run again: the world as it is now first."""
        self.recorder = Recorder(self.world)
        self.decisions = 0
        self.batch.snapshot = self.clock(), dump(snapshot(self.world))

    def _load_policy(self) -> None:
        """What was agreed and learned before: windows, claims, evictions, run times, ended jobs."""
        world, store = self.world, self.store
        world.windows.update({row["name"]: Window.from_record(row["body"]) for row in store.windows()})
        for row in store.evictions(list(world.jobs)):
            world.evicted[row["claimant"], row["victim"]] = row["at"]
        for row in store.claims():
            job = world.jobs.get(row["job"])
            if job is not None and job.state is JobState.QUEUED:
                slots = slots_of(row["slots"])
                placement = world.pool.placement(slots, job.demand.tasks)
                world.claim(job, Claim(placement, tuple(row["victims"]), row["since"], row["action"]))
        for row in store.history():
            world.run_times.learn(past_job(row), row["ran_s"] or row["ended_at"] - row["started_at"])
        for name in {other for job in world.jobs.values() for other, _ in job.depends_on}:
            ended = None if name in world.jobs else store.job(name, None)
            if ended is not None:
                self.note_ended(ended)

    # -- facts about nodes ---------------------------------------------------------------------

    def spec(self, job: Job) -> JobSpec:
        """A job's spec, parsed; those asked for last are kept."""
        spec = self.specs.pop(job.id, None) or JobSpec.model_validate_json(job.spec_text)
        self.keep_spec(job.id, spec)
        return spec

    def keep_spec(self, name: str, spec: JobSpec) -> None:
        """Keeps a job's parsed spec for a while."""
        self.specs[name] = spec
        if len(self.specs) > SPECS_KEPT:
            del self.specs[next(iter(self.specs))]

    def note_ended(self, row: Any) -> None:
        """Tells the world how a job ended that others depend on."""
        state = JobState(row["state"])
        if state in FINAL:
            self.world.ended[row["id"]] = state, row["started_at"] is not None

    def node(self, name: str) -> NodeFacts:
        """A node's facts; `KeyError` for a stranger."""
        return self.world.pool.facts[self.world.pool.index[name]]

    def replace_pool(self, facts: ClusterFacts) -> None:
        """Takes another cluster in; what is held stays held, on the nodes of the same name."""
        before = self.world
        for name in list(before.claims):
            before.release(before.jobs[name])
            self.batch.unclaim(name)
        held = [(job, before.give(job)) for job in list(before.holders())]
        slots = {job.id: before.pool.slots(placement, job.demand.tasks) for job, placement in held}
        self.facts = facts
        self.world = World(self._pool(facts), before.queues, before.jobs)
        for name in ("windows", "run_times", "ended", "evicted", "decay", "journal"):
            setattr(self.world, name, getattr(before, name))
        for job, _ in held:
            self.world.take(job, self.world.pool.placement(slots[job.id], job.demand.tasks))
        self.begin_journal()
        self.dirty = True

    def put_queue(self, queue: Queue) -> None:
        """Adds a queue or changes one."""
        self.world.put_queue(queue)
        self.batch.queues[queue.name] = queue
        self.dirty = True

    # -- transitions ---------------------------------------------------------------------------

    def move(self, job: Job, event: JobEvent, **body: Any) -> None:
        """A job's transition, written and logged; `TransitionError` where the table has none."""
        self._set(job, next_job(job.state, event), event, **body)

    def stopped(self, job: Job) -> None:
        """STOPPING ends at its target."""
        target = job.target or JobState.CANCELLED
        job.target = None
        self._set(job, target, JobEvent.STOPPED)

    def _set(self, job: Job, to: JobState, event: JobEvent, **body: Any) -> None:
        now = self.clock()
        before, job.state = job.state, to
        moves = to is JobState.STOPPING and job.target is JobState.QUEUED  # to the place that it claims
        if to is not JobState.QUEUED and not moves and job.id in self.world.claims:
            self.world.release(job)
            self.batch.unclaim(job.id)
        if to in FINAL:
            job.ended_at = now
            job.cause = job.cause or str(to)
            if job.cause in LESSONS:
                self.world.run_times.learn(job, job.ran_s)
            self.world.forget(job.id)
            self.specs.pop(job.id, None)
        elif to is JobState.QUEUED:
            self.fresh.add(job.id)
        self.batch.touch(job)
        self.note("state", job, **{"from": str(before), "on": str(event), "to": str(to)}, **body)

    def move_attempt(self, attempt: Attempt, event: AttemptEvent) -> None:
        """An attempt's transition, written."""
        attempt.state = next_attempt(attempt.state, event)
        if attempt.state is AttemptState.ENDED:
            attempt.ended_at = self.clock()
            self._count_run(attempt)
            self.attempts.pop(attempt.job, None)
            self.sent_at.pop(attempt.job, None)
            self.ports[attempt.master_port] -= 1
        (self.held.add if attempt.state is AttemptState.HELD else self.held.discard)(attempt.job)
        self.batch.touch_attempt(attempt)

    def _count_run(self, attempt: Attempt) -> None:
        """Adds what an attempt ran to what its job has run."""
        job = self.world.jobs.get(attempt.job)
        if job is not None and attempt.started_at is not None:
            job.ran_s += max((attempt.fault_at or self.clock()) - attempt.started_at, 0.0)

    def begin(self, job: Job, slots: list[Slot], replaced: dict[str, str] | None = None) -> Attempt:
        """A new attempt of a job that has just been given its nodes."""
        job.attempt += 1
        job.started_at = job.last_checkpoint_at = None
        attempt = Attempt(
            job=job.id,
            number=job.attempt,
            slots=slots,
            master_port=self._port(),
            created_at=self.clock(),
            replaced=replaced or {},
            held=held_by_model(slots, self.node),
        )
        self.attempts[job.id] = attempt
        self.ports[attempt.master_port] += 1
        text = slots_text(slots)
        self.batch.add_attempt(attempt, text)
        self.batch.note_text(
            attempt.created_at,
            "placed",
            f'{{"slots":{text},"replaced":{dump(attempt.replaced)}}}',
            tenant=job.tenant,
            job=job.id,
            attempt=job.attempt,
        )
        return attempt

    def _port(self) -> int:
        first, _, last = self.settings.master_ports.partition("-")
        span = int(last) - int(first) + 1
        for _ in range(min(span, PORT_TRIES)):
            port = int(first) + self.next_port % span
            self.next_port += 1
            if not self.ports[port]:
                return port
        return int(first) + self.next_port % span  # shared by attempts on other nodes, most likely

    def note(self, kind: str, job: Job | None = None, *, who: str = "aistation", **body: Any) -> None:
        """An entry of the log."""
        if job is None:
            self.batch.note(self.clock(), kind, who=who, **body)
        else:
            self.batch.note(
                self.clock(),
                kind,
                tenant=job.tenant,
                job=job.id,
                attempt=job.attempt or None,
                who=who,
                **body,
            )
