"""FIFO: strictly first come, first served; nobody passes a job that waits for room."""

from __future__ import annotations

from collections import deque

from l2_aistation.core.cycle import Session
from l2_aistation.core.seat import seat
from l2_aistation.core.world import Job, World

from . import Remaining, Scheme


class Fifo(Scheme):
    """First in, first out."""

    name = "fifo"
    words = "first come, first served, nobody passes"

    def open(self, world: World, remaining: Remaining) -> None:
        """Nobody waits."""
        super().open(world, remaining)
        self.waiting: deque[Job] = deque()
        self.actions = (self.allocate,)

    def queued(self, job: Job) -> None:
        """The job goes to the end."""
        self.waiting.append(job)

    def allocate(self, session: Session) -> None:
        """Starts jobs from the front until one does not fit."""
        while self.waiting and seat(session, self.waiting[0]) is None:
            self.waiting.popleft()
