"""Whose turn it is: the lanes of waiting jobs in the order of the policies, renewed as shares change."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any

from .job import Job
from .waiting import Lane

Rank = tuple[Any, ...]
Item = tuple[Rank, float, str, int, Lane]


class Turns:
    """The first job of the best lane, again and again, until every lane is dropped or empty.

    `rank` gives a job's place, `booked` counts bookings: a rank is as good as new while that stands.
    """

    def __init__(self, lanes: Iterable[Lane], rank: Callable[[Job], Rank], booked: Callable[[], int]) -> None:
        self.rank = rank
        self.booked = booked
        count = booked()
        self.heap: list[Item] = [self._item(lane, count) for lane in lanes if lane.entries]
        heapq.heapify(self.heap)

    def _item(self, lane: Lane, booked: int) -> Item:
        submitted, name, job = lane.entries[0]
        return self.rank(job), submitted, name, booked, lane

    def peek(self) -> Lane | None:
        """The lane whose first job has its turn; None at the end."""
        while self.heap:
            rank, _, name, ranked_at, lane = self.heap[0]
            if not lane.entries:
                heapq.heappop(self.heap)
                continue
            booked = self.booked()
            if ranked_at != booked or lane.entries[0][1] != name:
                fresh = self._item(lane, booked)
                if fresh[0] > rank or fresh[1:3] != self.heap[0][1:3]:
                    heapq.heapreplace(self.heap, fresh)
                    continue
                self.heap[0] = fresh
            return lane
        return None

    def drop(self) -> Lane:
        """Takes the lane that has its turn out."""
        return heapq.heappop(self.heap)[4]

    def lanes(self) -> Iterable[Lane]:
        """Those that have not been dropped."""
        return (item[4] for item in self.heap)
