"""A statement: bookings tried on the world, undone to a checkpoint or kept."""

from __future__ import annotations

from dataclasses import dataclass

from .pool import Placement
from .world import Job, World


@dataclass(frozen=True, slots=True)
class Booking:
    """One entry: a job was given a placement, or gave it back."""

    job: Job
    placement: Placement
    taken: bool


class Statement:
    """Tries bookings at once on the world; `rollback` undoes them in the opposite order."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.entries: list[Booking] = []

    def take(self, job: Job, placement: Placement) -> None:
        """Books a whole placement."""
        self.world.take(job, placement)
        self.entries.append(Booking(job, placement, taken=True))

    def give(self, job: Job) -> None:
        """Takes a job's placement away."""
        self.entries.append(Booking(job, self.world.give(job), taken=False))

    def checkpoint(self) -> int:
        """A mark to come back to."""
        return len(self.entries)

    def rollback(self, mark: int = 0) -> None:
        """Undoes every booking since the mark."""
        while len(self.entries) > mark:
            entry = self.entries.pop()
            if entry.taken:
                self.world.give(entry.job)
            else:
                self.world.take(entry.job, entry.placement)

    def commit(self) -> list[Booking]:
        """Keeps the bookings and returns them."""
        entries, self.entries = self.entries, []
        return entries
