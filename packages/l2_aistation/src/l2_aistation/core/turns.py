"""Whose turn it is: the lanes of waiting jobs in the order of the policies, renewed as shares change.

Lanes whose jobs get the same rank but for the time of submission (those of one queue, tenant and
priority, with the shipped policies) are a group: only the first of a group is ranked.  A group holds
kinds of lanes as long as all lanes of one have their turn; then the lanes that are left.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable
from itertools import count
from typing import Any

from .job import Job
from .waiting import Kind, Lane

Rank = tuple[Any, ...]
Entry = tuple[float, str, int, Lane | Kind]
Item = tuple[Rank, float, str, int, list[Entry]]


class Turns:
    """The first job of the best lane, again and again, until every lane is dropped, closed or empty.

    `rank` gives a job's place, `booked` counts bookings: a rank is as good as new while that stands.
    `group_of` names the group of a job; without it every lane is one of its own.
    """

    def __init__(
        self,
        lanes: Iterable[Lane | Kind],
        rank: Callable[[Job], Rank],
        booked: Callable[[], int],
        group_of: Callable[[Lane], Hashable] | None = None,
    ) -> None:
        self.rank = rank
        self.booked = booked
        self.closed: set[Lane | Kind] = set()
        self.serial = count()
        groups: dict[Hashable, list[Entry]] = {}
        for item in lanes:
            head = item.head()
            if head is not None:
                submitted, name, _ = head.entries[0]
                entry = submitted, name, next(self.serial), item
                key = id(item) if group_of is None else group_of(head)
                group = groups.get(key)
                if group is None:
                    groups[key] = [entry]
                else:
                    group.append(entry)
        ranked_at = booked()
        for group in groups.values():
            heapq.heapify(group)
        self.heap: list[Item] = [self._item(group, ranked_at) for group in groups.values()]
        heapq.heapify(self.heap)

    def _entry(self, head: Lane, item: Lane | Kind) -> Entry:
        submitted, name, _ = head.entries[0]
        return submitted, name, next(self.serial), item

    def _item(self, group: list[Entry], booked: int) -> Item:
        submitted, name, _, item = group[0]
        head = item.head()
        assert head is not None
        return self.rank(head.first), submitted, name, booked, group

    def _settle(self, group: list[Entry]) -> Lane | None:
        """Brings the first lane of a group to its front; None where none is left."""
        while group:
            _, name, _, item = group[0]
            head = item.head()
            if head is None or item in self.closed or head.kind in self.closed:
                heapq.heappop(group)
            elif head in self.closed:
                heapq.heappop(group)
                self._open(group, item)
            elif head.entries[0][1] != name:
                heapq.heapreplace(group, self._entry(head, item))
            else:
                return head
        return None

    def _open(self, group: list[Entry], item: Lane | Kind) -> None:
        """Puts the lanes of a kind, one of which has had its turn, in its place."""
        for lane in item.lanes.values() if isinstance(item, Kind) else ():
            if lane.entries and lane not in self.closed:
                heapq.heappush(group, self._entry(lane, lane))

    def peek(self) -> Lane | None:
        """The lane whose first job has its turn; None at the end."""
        while self.heap:
            rank, submitted, name, ranked_at, group = self.heap[0]
            lane = self._settle(group)
            if lane is None:
                heapq.heappop(self.heap)
                continue
            booked = self.booked()
            if ranked_at != booked or group[0][1] != name:
                fresh = self._item(group, booked)
                if fresh[0] > rank or fresh[1:3] != (submitted, name):
                    heapq.heapreplace(self.heap, fresh)
                    continue
                self.heap[0] = fresh
            return lane
        return None

    def close(self, lane: Lane | Kind) -> None:
        """Takes a lane or a kind out."""
        self.closed.add(lane)
