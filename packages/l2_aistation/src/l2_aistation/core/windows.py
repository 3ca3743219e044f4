"""Reservations and maintenance: which nodes are kept free, from when until when, and for whom.

A job that would still run when a window begins is not started on its nodes, unless its limit (or,
where it may be evicted, its estimate) ends before.  During a reservation its nodes take only jobs
that name it and are allowed to; during maintenance they take none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from l2_aistation._kit.problems import BadInput

from .job import Job
from .pool import Bools, Pool
from .refusal import Refusal

KINDS = ("reservation", "maintenance")


@dataclass(frozen=True, slots=True)
class Window:
    """Nodes kept free in [start, until), seconds since the epoch.

    Either `nodes` are named, or `count` of them are chosen once, by `choose`, when the window is made.
    Empty `users`, `queues` and no `tenant` let everybody in who names the reservation.
    """

    name: str
    kind: str
    start: float
    until: float
    nodes: tuple[str, ...] = ()
    count: int = 0
    tenant: str | None = None
    users: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise BadInput(f"{self.kind!r} is no kind", field="kind", do=f"use one of {', '.join(KINDS)}")
        if not self.start < self.until:
            raise BadInput("must end after it begins", field="until", do="give a later time")
        if bool(self.nodes) == bool(self.count) or self.count < 0:
            raise BadInput("needs nodes, or a count of nodes", field="nodes", do="give one of the two")

    def overlaps(self, start: float, end: float) -> bool:
        """Whether a run from `start` to `end` meets the window."""
        return start < self.until and end > self.start

    def lets_in(self, job: Job) -> bool:
        """Whether the job runs inside this window."""
        return (
            self.kind == "reservation"
            and job.reservation == self.name
            and (self.tenant is None or self.tenant == job.tenant)
            and (not self.users or job.owner in self.users)
            and (not self.queues or job.queue in self.queues)
        )

    def as_record(self) -> dict[str, Any]:
        """JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "start": self.start,
            "until": self.until,
            "nodes": list(self.nodes),
            "tenant": self.tenant,
            "users": list(self.users),
            "queues": list(self.queues),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Window:
        """The inverse of `as_record`; a count may stand in place of nodes."""
        return cls(
            name=record["name"],
            kind=record["kind"],
            start=float(record["start"]),
            until=float(record["until"]),
            nodes=tuple(record.get("nodes") or ()),
            count=int(record.get("count") or 0),
            tenant=record.get("tenant"),
            users=tuple(record.get("users") or ()),
            queues=tuple(record.get("queues") or ()),
        )


def choose(window: Window, pool: Pool, others: Iterable[Window], busy_until: Mapping[str, float]) -> Window:
    """The window with its nodes named: by count, those that are free soonest, neighbours first.

    `busy_until` says when the last job on a node ends.  `BadInput` where a node is unknown, or too few
    are left beside the other windows of that time.
    """
    unknown = [node for node in window.nodes if node not in pool.index]
    if unknown:
        raise BadInput(f"no node {unknown[0]!r}", field="nodes", do="`aistation nodes` lists them")
    taken = {
        node
        for other in others
        if other.name != window.name and other.overlaps(window.start, window.until)
        for node in other.nodes
    }
    if window.nodes:
        twice = sorted(taken & set(window.nodes)) if window.kind == "reservation" else []
        if twice:
            raise BadInput(f"node {twice[0]!r} is in another window of that time", field="nodes")
        return window
    left = [node.id for node in pool.facts if node.id not in taken and not node.spare]
    if len(left) < window.count:
        raise BadInput(
            f"{window.count} nodes asked for, {len(left)} can be kept at that time",
            field="count",
            do="ask for fewer, or for another time",
        )
    late = {node: max(busy_until.get(node, 0.0) - window.start, 0.0) for node in left}
    order = sorted(range(len(left)), key=lambda place: (late[left[place]], place))
    chosen = tuple(left[place] for place in sorted(order[: window.count]))
    record = {**window.as_record(), "nodes": chosen}
    return Window.from_record(record)


def shut(windows: Iterable[Window], pool: Pool, job: Job, start: float, end: float) -> Bools | None:
    """The nodes that a run of the job from `start` to `end` must not use; None where it may use all."""
    closed: Bools | None = None
    for window in windows:
        if window.overlaps(start, end) and not window.lets_in(job):
            if closed is None:
                closed = np.zeros(len(pool), dtype=np.bool_)
            closed[_places(window, pool)] = True
    return closed


def inside(windows: Iterable[Window], pool: Pool, job: Job, now: float) -> Bools | None:
    """The nodes of the job's own reservation, while it is open; None for a job without one."""
    if job.reservation is None:
        return None
    mine = np.zeros(len(pool), dtype=np.bool_)
    for window in windows:
        if window.lets_in(job) and window.start <= now < window.until:
            mine[_places(window, pool)] = True
    return mine


def refusal(windows: Mapping[str, Window], job: Job, now: float) -> Refusal | None:
    """Why the job's own reservation does not let it start now."""
    if job.reservation is None:
        return None
    window = windows.get(job.reservation)
    if window is None or now >= window.until:
        return Refusal(
            "reservation", "its reservation {of} is over or unknown", of=job.reservation, forever=True
        )
    if not window.lets_in(job):
        return Refusal("reservation", "reservation {of} is for others", of=window.name, forever=True)
    if now < window.start:
        return Refusal("reservation", "its reservation {of} has not begun", of=window.name)
    return None


def busy_at(windows: Iterable[Window], now: float) -> tuple[Window, ...]:
    """Those that are open now."""
    return tuple(window for window in windows if window.start <= now < window.until)


def _places(window: Window, pool: Pool) -> list[int]:
    return [pool.index[node] for node in window.nodes if node in pool.index]
