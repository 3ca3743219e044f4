"""When a scheduling cycle runs, and what becomes of what it decided."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from l2_aistation.core.bounds import next_wake
from l2_aistation.core.cycle import Session, run
from l2_aistation.core.policy import Policy
from l2_aistation.core.statement import Booking, ClaimEnded, ClaimMade, Entry, Eviction
from l2_aistation.core.states import JobEvent, JobState
from l2_aistation.store.rows import slots_text

from .jobs import stop
from .launch import start_commands
from .platform import Platform

FULL_CYCLE_EVERY_S = 30.0
SNAPSHOT_EVERY = 20_000
"""Cycles after which the journal goes on from a new snapshot; what lies before the last but one goes."""
log = logging.getLogger(__name__)
EVICTABLE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.HELD, JobState.RESUMING})


class Cycles:
    """Runs a cycle over all waiting jobs when something became free, over the new ones alone otherwise."""

    def __init__(self, platform: Platform, policies: Sequence[Policy]) -> None:
        self.platform = platform
        self.policies = policies
        self.last_full = 0.0
        self.grown = -1
        self.barred = False
        self.cpu_s = 0.0
        self.failures = 0
        self.wake_at: float | None = None

    @property
    def due(self) -> bool:
        """Whether something became free since the last full cycle, or a time has come."""
        if self.platform.dirty or self.platform.world.pool.grown != self.grown:
            return True
        return self.wake_at is not None and self.platform.clock() >= self.wake_at

    def run_if_due(self) -> None:
        """The cycle that this pass needs, if any."""
        platform = self.platform
        now = platform.clock()
        if self.due or now - self.last_full >= FULL_CYCLE_EVERY_S:
            self.last_full = now
            self.barred = self._run(None).barred
            self.grown = platform.world.pool.grown
            self.wake_at = next_wake(platform.world, now)
        elif platform.fresh and not self.barred:
            self._run(frozenset(platform.fresh))
        platform.fresh.clear()
        platform.dirty = False

    def wait_s(self, most: float) -> float:
        """How long the loop may sleep."""
        if self.due or self.platform.outbox:
            return 0.0
        return most if self.wake_at is None else min(most, max(self.wake_at - self.platform.clock(), 0.001))

    def forget(self) -> None:
        """After a reload: the next pass runs a full cycle."""
        self.grown = -1

    def _run(self, only: frozenset[str] | None) -> Session:
        platform = self.platform
        began = time.thread_time()
        if platform.decisions >= SNAPSHOT_EVERY:
            platform.begin_journal()
        recorder = platform.recorder
        told = recorder.begin()
        session = Session(platform.world, platform.clock(), self.policies, only)
        try:
            run(session)
        except Exception:
            # It has undone itself: a fault in a policy stops decisions, not the answers to people.
            log.exception("a cycle failed")
            self.failures += 1
            platform.begin_journal()
            return session
        decided = session.statement.commit()
        platform.batch.decided(session.now, recorder.end(told, session, decided))
        platform.decisions += 1
        for entry in decided:
            self._carry_out(entry)
        for job, refusal in session.told:
            if job.waits:
                platform.note("refused", job, limit=refusal.limit, why=refusal.words())
        self._note_promises(session)
        self.cpu_s = time.thread_time() - began
        return session

    def _carry_out(self, entry: Entry) -> None:
        if isinstance(entry, Booking):
            if entry.taken:
                self._start(entry)
        elif isinstance(entry, Eviction):
            self._evict(entry)
        elif isinstance(entry, ClaimMade):
            self._claim(entry)
        elif isinstance(entry, ClaimEnded):
            self.platform.batch.unclaim(entry.job.id)
            self.platform.note("claim", entry.job, change="ended", why=entry.why)

    def _start(self, entry: Booking) -> None:
        platform, job = self.platform, entry.job
        slots = platform.world.pool.slots(entry.placement, job.demand.tasks)
        attempt = platform.begin(job, slots)
        platform.move(job, JobEvent.PLACE if attempt.number == 1 else JobEvent.RESUME)
        try:
            platform.outbox.extend(start_commands(platform, job, attempt))
        except Exception as error:
            log.exception("job %s cannot be started", job.id)
            job.cause = "launch_error"
            stop(platform, job, JobState.FAILED, why=f"it cannot be started: {error}")

    def _evict(self, entry: Eviction) -> None:
        """Asks a job to leave: it goes back to its queue when its ranks have stopped.

        Who made it leave is told where both are of one tenant; the operators' log has it all.
        """
        platform, job, claimant = self.platform, entry.job, entry.claimant
        if claimant is not job:
            platform.batch.eviction(claimant.id, job.id, entry.at)
        platform.note(
            "eviction",
            None,
            claimant=claimant.id,
            victim=job.id,
            action=entry.action,
            lost_s=round(entry.lost_s, 3),
        )
        if job.state not in EVICTABLE:
            return
        attempt = platform.attempts[job.id]
        attempt.cause = "evicted"
        by = claimant.id if claimant.tenant == job.tenant else "another tenant's job"
        words = "moves to another place" if claimant is job else f"gives its place to {by} ({entry.action})"
        stop(platform, job, JobState.QUEUED, why=words, action=entry.action, lost_s=round(entry.lost_s, 3))

    def _claim(self, entry: ClaimMade) -> None:
        platform, job, claim = self.platform, entry.job, entry.claim
        slots = platform.world.pool.slots(claim.placement, job.demand.tasks)
        platform.batch.claim(job.id, claim.action, slots_text(slots), claim.victims, claim.since)
        platform.note("claim", job, change="made", action=claim.action, waits_for=len(claim.victims))

    def _note_promises(self, session: Session) -> None:
        """Writes down the starts that were promised, or moved, in this cycle."""
        platform = self.platform
        for name, promise in session.promised.items():
            job = platform.world.jobs.get(name)
            if job is None:
                continue
            platform.batch.touch(job)
            if promise is not None and job.waits:
                platform.note(
                    "promise", job, start_by=round(promise.at, 3), firm=promise.firm, why=job.promise
                )
