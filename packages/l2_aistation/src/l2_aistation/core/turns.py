"""Whose turn it is: the lanes of waiting jobs in the order of the policies, renewed as shares change.

Lanes whose jobs get the same rank but for the time of submission (those of one queue, tenant and
priority, with the shipped policies) are a group: only the first of a group is ranked.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from .job import Job
from .waiting import Lane

Rank = tuple[Any, ...]
Entry = tuple[float, str, Lane]
Item = tuple[Rank, float, str, int, list[Entry]]


class Turns:
    """The first job of the best lane, again and again, until every lane is dropped, closed or empty.

    `rank` gives a job's place, `booked` counts bookings: a rank is as good as new while that stands.
    `group_of` names the group of a job; without it every lane is one of its own.
    """

    def __init__(
        self,
        lanes: Iterable[Lane],
        rank: Callable[[Job], Rank],
        booked: Callable[[], int],
        group_of: Callable[[Lane], Hashable] | None = None,
    ) -> None:
        self.rank = rank
        self.booked = booked
        self.closed: set[int] = set()
        groups: dict[Hashable, list[Entry]] = {}
        for lane in lanes:
            if lane.entries:
                submitted, name, _ = lane.entries[0]
                key = id(lane) if group_of is None else group_of(lane)
                groups.setdefault(key, []).append((submitted, name, lane))
        count = booked()
        for group in groups.values():
            heapq.heapify(group)
        self.heap: list[Item] = [self._item(group, count) for group in groups.values()]
        heapq.heapify(self.heap)

    def _item(self, group: list[Entry], booked: int) -> Item:
        submitted, name, lane = group[0]
        return self.rank(lane.entries[0][2]), submitted, name, booked, group

    def _settle(self, group: list[Entry]) -> bool:
        """Brings the first lane of a group to its front; False where none is left."""
        while group:
            _, name, lane = group[0]
            if not lane.entries or id(lane) in self.closed:
                heapq.heappop(group)
            elif lane.entries[0][1] != name:
                submitted, name, _ = lane.entries[0]
                heapq.heapreplace(group, (submitted, name, lane))
            else:
                return True
        return False

    def peek(self) -> Lane | None:
        """The lane whose first job has its turn; None at the end."""
        while self.heap:
            rank, submitted, name, ranked_at, group = self.heap[0]
            if not self._settle(group):
                heapq.heappop(self.heap)
                continue
            booked = self.booked()
            if ranked_at != booked or group[0][1] != name:
                fresh = self._item(group, booked)
                if fresh[0] > rank or fresh[1:3] != (submitted, name):
                    heapq.heapreplace(self.heap, fresh)
                    continue
                self.heap[0] = fresh
            return group[0][2]
        return None

    def drop(self) -> Lane:
        """Takes the lane that has its turn out."""
        lane = heapq.heappop(self.heap[0][4])[2]
        self.closed.add(id(lane))
        return lane

    def close(self, lane: Lane) -> None:
        """Takes any lane out."""
        self.closed.add(id(lane))
