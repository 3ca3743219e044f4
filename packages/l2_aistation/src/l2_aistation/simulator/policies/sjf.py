"""Shortest job first: run times are known (an oracle), who does not fit is passed."""

from __future__ import annotations

import heapq

from l2_aistation.core.cycle import Session
from l2_aistation.core.demand import Demand
from l2_aistation.core.seat import seat
from l2_aistation.core.world import Job, World

from . import Remaining, Scheme


class ShortestFirst(Scheme):
    """The job with the least left to run goes first; equal demands wait in one lane."""

    name = "sjf"
    words = "shortest job first, run times known"
    oracle = True

    def open(self, world: World, remaining: Remaining) -> None:
        """Nobody waits."""
        super().open(world, remaining)
        self.lanes: dict[Demand, list[tuple[float, float, str, Job]]] = {}
        self.actions = (self.allocate,)

    def queued(self, job: Job) -> None:
        """The job goes to its place in the lane of its demand."""
        entry = (self.remaining(job.id), job.submitted_at, job.id, job)
        heapq.heappush(self.lanes.setdefault(job.demand, []), entry)

    def allocate(self, session: Session) -> None:
        """The shortest of all lanes' firsts, until every lane is empty or does not fit."""
        firsts = [(lane[0], demand) for demand, lane in self.lanes.items()]
        heapq.heapify(firsts)
        while firsts:
            entry, demand = firsts[0]
            lane = self.lanes[demand]
            if seat(session, entry[3]) is not None:
                heapq.heappop(firsts)
                continue
            heapq.heappop(lane)
            if lane:
                heapq.heapreplace(firsts, (lane[0], demand))
            else:
                heapq.heappop(firsts)
                del self.lanes[demand]
