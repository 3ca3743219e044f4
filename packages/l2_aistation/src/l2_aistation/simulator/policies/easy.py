"""EASY backfill (Lifka 1995; Mu'alem and Feitelson 2001): a job may pass the first one in the queue
only if that one does not start later for it.  Run times are known exactly (an oracle).
"""

from __future__ import annotations

import heapq
from itertools import islice

import numpy as np

from l2_aistation.core.cycle import Session
from l2_aistation.core.demand import Demand
from l2_aistation.core.placement import place
from l2_aistation.core.pool import Pool
from l2_aistation.core.seat import seat
from l2_aistation.core.world import Job, World

from . import Remaining, Scheme

DEPTH = 200
"""So many waiting jobs are looked at in a cycle."""


class Easy(Scheme):
    """FIFO whose head holds a reservation, filled up from behind.

    Without `beside` only what ends before the reservation passes, even where it would not touch it.
    """

    name = "easy"
    words = f"first come with a reservation for the first, backfilled to depth {DEPTH}, run times known"
    oracle = True

    def __init__(self, *, beside: bool = True) -> None:
        self.beside = beside

    def open(self, world: World, remaining: Remaining) -> None:
        """Nobody waits, nobody runs."""
        super().open(world, remaining)
        self.waiting: dict[str, Job] = {}
        self.ends: dict[str, float] = {}
        self.head: str | None = None
        self.shadow_s = 0.0
        self.shadow: Pool | None = None
        self.actions = (self.allocate,)

    def queued(self, job: Job) -> None:
        """The job goes to the end."""
        self.waiting[job.id] = job

    def ended(self, job: Job, now: float) -> None:  # noqa: ARG002 (the protocol's words)
        """Forget it."""
        del self.ends[job.id]

    def allocate(self, session: Session) -> None:
        """Starts jobs from the front, reserves for the first that does not fit, fills the gap behind it."""
        for job in list(islice(self.waiting.values(), DEPTH)):
            if seat(session, job) is not None:
                break
            del self.waiting[job.id]
            self.ends[job.id] = session.now + self.remaining(job.id)
        else:
            return
        if self.head != job.id:
            self.head = job.id
            self._reserve(session.world, job.demand)
        self._backfill(session)

    def _reserve(self, world: World, demand: Demand) -> None:
        """When the head can start, and what is then left beside it."""
        future = world.pool.copy()
        group = demand.groups[0]
        need = 0 if group.part else group.accelerators  # what a node must have for even one task
        running = [(end, name) for name, end in self.ends.items()]
        heapq.heapify(running)
        found = None
        while running and (found is None or running[0][0] == self.shadow_s):
            self.shadow_s, name = heapq.heappop(running)
            freed = world.jobs[name].placement
            assert freed is not None
            future.give(freed)
            if found is None and np.bitwise_count(future.free_bits[freed.nodes]).max() >= need:
                found = place(future, demand)
        assert found is not None, "a job that fits the empty cluster fits it in the end"
        future.take(found)
        self.shadow = future

    def _backfill(self, session: Session) -> None:
        assert self.shadow is not None
        full: set[Demand] = set()
        beside: set[Demand] = set()
        for job in list(islice(self.waiting.values(), 1, DEPTH)):
            demand = job.demand
            if demand in full:
                continue
            over = session.now + self.remaining(job.id)
            if over <= self.shadow_s:
                if seat(session, job) is not None:
                    full.add(demand)
                    continue
            elif not self.beside or demand in beside or not self._beside(session, job):
                beside.add(demand)
                continue
            del self.waiting[job.id]
            self.ends[job.id] = over

    def _beside(self, session: Session, job: Job) -> bool:
        """Starts a job that outlasts the reservation on what the head leaves over."""
        assert self.shadow is not None
        both = session.world.pool.copy()
        both.meet(self.shadow)
        found = place(both, job.demand)
        if found is None:
            return False
        session.book(job, found)
        self.shadow.take(found)
        return True
