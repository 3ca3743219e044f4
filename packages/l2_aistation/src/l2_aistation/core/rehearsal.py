"""A world driven without engines: what a job does, the caller says; what becomes of it, the cycle.

For scenario tables, state machines and questions of what would happen.  Time is the caller's too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from .cycle import Action, Session, run
from .job import Job
from .policy import Policy, default_policies
from .refusal import Refusal
from .statement import Booking, ClaimEnded, ClaimMade, Entry, Eviction
from .states import JobState
from .world import Queue, World


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a cycle decided, in ids: who started, who was evicted by whom, who holds a claim since."""

    started: tuple[str, ...]
    evicted: tuple[tuple[str, str], ...]
    claimed: tuple[str, ...]
    unclaimed: tuple[tuple[str, str], ...]
    entries: tuple[Entry, ...] = field(repr=False, default=())


class Rehearsal:
    """The life of jobs from submission to end; a started job runs at once, an evicted one stops on call."""

    def __init__(
        self, world: World, policies: Sequence[Policy] | None = None, actions: Sequence[Action] | None = None
    ) -> None:
        self.world = world
        self.policies = tuple(default_policies() if policies is None else policies)
        self.actions = actions
        self.now = 0.0

    def submit(self, job: Job) -> None:
        """A new job waits."""
        job.submitted_at = self.now
        self.world.jobs[job.id] = job

    def end(self, name: str, state: JobState = JobState.COMPLETED) -> None:
        """A job is over: completed, failed or cancelled."""
        world = self.world
        job = world.jobs[name]
        if job.placement is not None:
            if job.started_at is not None and state is JobState.COMPLETED:
                world.run_times.learn(job, self.now - job.started_at)
            world.give(job)
        job.state, job.ended_at = state, self.now
        world.forget(name)

    def stop(self, *names: str) -> None:
        """Evicted jobs (all of them by default) have stopped: they wait again."""
        for job in list(self.world.jobs.values()):
            if job.state is JobState.STOPPING and (not names or job.id in names):
                job.ran_s = job.attained_s(self.now)
                self.world.give(job)
                job.started_at = job.last_checkpoint_at = None
                job.state = JobState.QUEUED

    def checkpoint(self, name: str) -> None:
        """A job has written a checkpoint."""
        self.world.jobs[name].last_checkpoint_at = self.now

    def lose(self, node: str) -> None:
        """A node is lost: its jobs wait again, the node is out of service."""
        world = self.world
        world.pool.set_up(node, value=False)
        number = world.pool.index[node]
        for job in list(world.holders()):
            if job.placement is not None and number in job.placement.nodes:
                world.give(job)
                job.started_at = None
                job.state = JobState.QUEUED

    def restore(self, node: str) -> None:
        """A lost node is back."""
        self.world.pool.set_up(node, value=True)

    def put_queue(self, queue: Queue) -> None:
        """A queue is new or has other limits."""
        before = self.world.queues.get(queue.name)
        version = 1 if before is None else before.version + 1
        self.world.put_queue(replace(queue, version=version))

    def cycle(
        self,
        only: frozenset[str] | None = None,
        ended: Callable[[Session, Sequence[Entry]], None] | None = None,
    ) -> Outcome:
        """Runs a cycle and lets it happen; `ended` is told before it does."""
        session = run(Session(self.world, self.now, self.policies, only), self.actions)
        entries = session.statement.commit()
        if ended is not None:
            ended(session, entries)
        for entry in entries:
            self._apply(entry)
        return Outcome(
            tuple(entry.job.id for entry in entries if isinstance(entry, Booking) and entry.taken),
            tuple((entry.job.id, entry.claimant.id) for entry in entries if isinstance(entry, Eviction)),
            tuple(entry.job.id for entry in entries if isinstance(entry, ClaimMade)),
            tuple((entry.job.id, entry.why) for entry in entries if isinstance(entry, ClaimEnded)),
            tuple(entries),
        )

    def _apply(self, entry: Entry) -> None:
        if isinstance(entry, Booking) and entry.taken:
            entry.job.state = JobState.RUNNING
            entry.job.started_at = self.now
            entry.job.attempt += 1
        elif isinstance(entry, Eviction):
            entry.job.state = JobState.STOPPING
            entry.job.target = JobState.QUEUED

    def refusal(self, name: str) -> Refusal | None:
        """Why a waiting job does not start, as of the last cycle."""
        return Session(self.world, self.now, self.policies).refusals.get(name)

    def running(self) -> list[str]:
        """Who runs, by id."""
        return sorted(job.id for job in self.world.holders() if job.state is JobState.RUNNING)
