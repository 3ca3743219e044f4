"""A statement: bookings, evictions and claims tried on the world, undone to a checkpoint or kept."""

from __future__ import annotations

from dataclasses import dataclass

from .claims import Claim
from .pool import Placement
from .world import Job, World


@dataclass(frozen=True, slots=True)
class Booking:
    """A job was given a placement, or gave it back."""

    job: Job
    placement: Placement
    taken: bool


@dataclass(frozen=True, slots=True)
class Eviction:
    """A job is asked to leave; it holds its place until it has stopped, then waits again.

    `lost_s` is the run time since its last checkpoint, which it will have to run again.
    """

    job: Job
    claimant: Job
    action: str
    placement: Placement
    lost_s: float
    at: float


@dataclass(frozen=True, slots=True)
class ClaimMade:
    """A place is kept for a job until its victims have gone."""

    job: Job
    claim: Claim


@dataclass(frozen=True, slots=True)
class ClaimEnded:
    """A job's claim is over: it has its place (`Booking` follows), or lost it, and why."""

    job: Job
    claim: Claim
    why: str


Entry = Booking | Eviction | ClaimMade | ClaimEnded


class Statement:
    """Tries entries at once on the world; `rollback` undoes them in the opposite order."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.entries: list[Entry] = []

    def take(self, job: Job, placement: Placement) -> None:
        """Books a whole placement."""
        self.world.take(job, placement)
        self.entries.append(Booking(job, placement, taken=True))

    def give(self, job: Job) -> None:
        """Takes a job's placement away."""
        self.entries.append(Booking(job, self.world.give(job), taken=False))

    def evict(self, victim: Job, claimant: Job, action: str, now: float) -> None:
        """Asks a job to leave for another (or for itself, to another place)."""
        if victim.placement is None:
            raise ValueError(f"job {victim.id} holds nothing")
        if victim is not claimant:
            if (claimant.id, victim.id) in self.world.evicted:
                raise ValueError(f"{claimant.id} has evicted {victim.id} before")
            self.world.evicted[claimant.id, victim.id] = now
        lost = victim.lost_work_s(now)
        self.entries.append(Eviction(victim, claimant, action, victim.placement, lost, now))

    def claim(self, job: Job, claim: Claim) -> None:
        """Keeps a place for a job."""
        self.world.claim(job, claim)
        self.entries.append(ClaimMade(job, claim))

    def release(self, job: Job, why: str) -> None:
        """Ends a job's claim."""
        self.entries.append(ClaimEnded(job, self.world.release(job), why))

    def checkpoint(self) -> int:
        """A mark to come back to."""
        return len(self.entries)

    def rollback(self, mark: int = 0) -> None:
        """Undoes every entry since the mark."""
        while len(self.entries) > mark:
            self._undo(self.entries.pop())

    def _undo(self, entry: Entry) -> None:
        world = self.world
        if isinstance(entry, ClaimMade):
            world.release(entry.job)
        elif isinstance(entry, ClaimEnded):
            world.claim(entry.job, entry.claim)
        elif isinstance(entry, Eviction):
            world.evicted.pop((entry.claimant.id, entry.job.id), None)
        elif entry.taken:
            world.give(entry.job)
        else:
            world.take(entry.job, entry.placement)

    def commit(self) -> list[Entry]:
        """Keeps the entries and returns them."""
        entries, self.entries = self.entries, []
        return entries
