"""When a scheduling cycle runs, and what becomes of what it decided."""

from __future__ import annotations

import time
from collections.abc import Sequence

from l2_aistation.core.cycle import Session, run
from l2_aistation.core.policy import Policy
from l2_aistation.core.states import JobEvent

from .launch import start_commands
from .platform import Platform

FULL_CYCLE_EVERY_S = 5.0


class Cycles:
    """Runs a cycle over all waiting jobs when something became free, over the new ones alone otherwise."""

    def __init__(self, platform: Platform, policies: Sequence[Policy]) -> None:
        self.platform = platform
        self.policies = policies
        self.last_full = 0.0
        self.grown = -1
        self.barred = False
        self.cpu_s = 0.0

    @property
    def due(self) -> bool:
        """Whether something became free since the last full cycle."""
        return self.platform.dirty or self.platform.world.pool.grown != self.grown

    def run_if_due(self) -> None:
        """The cycle that this pass needs, if any."""
        platform = self.platform
        now = platform.clock()
        if self.due or now - self.last_full >= FULL_CYCLE_EVERY_S:
            self.last_full = now
            self.barred = self._run(None).barred
            self.grown = platform.world.pool.grown
        elif platform.fresh and not self.barred:
            self._run(frozenset(platform.fresh))
        platform.fresh.clear()
        platform.dirty = False

    def forget(self) -> None:
        """After a reload: the next pass runs a full cycle."""
        self.grown = -1

    def _run(self, only: frozenset[str] | None) -> Session:
        platform = self.platform
        began = time.thread_time()
        session = run(Session(platform.world, platform.clock(), self.policies, only))
        for booking in session.statement.commit():
            job = booking.job
            slots = platform.world.pool.slots(booking.placement, job.demand.tasks)
            attempt = platform.begin(job, slots)
            platform.move(job, JobEvent.PLACE if attempt.number == 1 else JobEvent.RESUME)
            platform.outbox.extend(start_commands(platform, job, attempt))
            platform.refusals.pop(job.id, None)
        for name, refusal in session.refusals.items():
            before = platform.refusals.get(name)
            platform.refusals[name] = refusal
            if before is None or before.limit != refusal.limit:
                job = platform.world.jobs[name]
                platform.note("refused", job, limit=refusal.limit, why=refusal.words())
        self.cpu_s = time.thread_time() - began
        return session
