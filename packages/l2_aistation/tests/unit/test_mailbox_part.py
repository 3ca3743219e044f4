"""A part of a job under a workload manager, killed and made again between any two steps."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from l2_aistation.backends.mailbox.manager import Key, Ticket
from l2_aistation.backends.mailbox.part import Part
from l2_aistation.core.events import EndTasks, StartTasks, TaskExited, TaskLaunch, TasksEnded, TaskStarted
from l2_aistation.supervisor.mailbox import Box


class Pretended:
    """A manager that only remembers."""

    name = "pretended"

    def __init__(self) -> None:
        self.orders: dict[int, str] = {}
        self.ordered: list[int] = []

    def submit(self, start: StartTasks, box: Box) -> None:
        self.orders[start.attempt] = "waiting"
        self.ordered.append(start.attempt)

    def tickets(self) -> Mapping[Key, Ticket]:
        return {}

    def tend(self) -> None:
        """Nothing."""

    def cancel(self, ids: Iterable[str]) -> None:
        """Takes its time where a warden runs."""
        for name in ids:
            self.orders[int(name)] = "over" if self.orders[int(name)] == "waiting" else "ending"

    def nodes(self) -> Mapping[str, str]:
        return {}

    def unfit(self, _start: StartTasks) -> str:
        return ""

    def living(self) -> list[int]:
        return [attempt for attempt, state in self.orders.items() if state != "over"]


OPERATIONS = {
    "start the next": 4,
    "start again": 2,
    "start a late one": 1,
    "end": 2,
    "end the next": 1,
    "settle": 8,
    "settle, killed before the order": 1,
    "settle, killed after the order": 2,
    "restart": 1,
    "deliver": 2,
    "runs": 4,
    "completes": 1,
    "obeys": 2,
    "is killed": 2,
    "purge": 2,
}


class Site:
    """Starts, ends, wardens that live and die, and a platform that forgets everything."""

    def __init__(self, folder: Path) -> None:
        self.box = Box(folder / "n1" / "job")
        self.manager = Pretended()
        self.part = Part(self.box)
        self.delivered: list[Any] = []
        self.newest = 0
        self.named: set[int] = set()
        self.told_over: set[int] = set()

    def do(self, operation: str) -> None:
        words = operation.split(maxsplit=1)[0].rstrip(",")
        if words == "start":
            self.start(max(self.newest + {"the": 1, "again": 0, "a": -1}[operation.split()[1]], 1))
        elif words == "end":
            self.end(max(self.newest + (operation == "end the next"), 1))
        elif words == "settle":
            self.settle(operation.partition("killed ")[2])
        elif words == "restart":
            self.part = Part(self.box)
        elif words == "deliver":
            self.deliver()
        elif words == "purge" and self.told_over:
            self.manager.orders.pop(self.told_over.pop(), None)
        elif self.manager.living():
            self.warden(operation)

    def start(self, attempt: int) -> None:
        task = TaskLaunch(0, 0, "worker", ("x",))
        self.part.take(StartTasks("job", attempt, "n1", "tenant", 1, (task,)))
        self.newest = max(self.newest, attempt)
        self.named.add(attempt)

    def end(self, attempt: int) -> None:
        self.part.take(EndTasks("job", attempt, "n1", 0.0))
        self.newest = max(self.newest, attempt)
        self.named.add(attempt)

    def settle(self, killed: str = "") -> None:
        """One round of the engine, which may be killed around its order."""
        tickets = {
            attempt: Ticket(str(attempt), "running" if state == "ending" else state, "why")  # type: ignore[arg-type]
            for attempt, state in self.manager.orders.items()
        }
        unwanted, start = self.part.settle(tickets, self.manager)
        self.told_over |= {attempt for attempt, ticket in tickets.items() if ticket.state == "over"}
        self.manager.cancel(unwanted)
        if start is not None and killed != "before the order":
            self.manager.submit(start, self.box)
            if not killed:
                self.part.ordered(start.attempt)
        if killed:
            self.part = Part(self.box)

    def deliver(self) -> None:
        events, offset = self.part.news()
        self.delivered += events
        self.part.acknowledge(offset)

    def warden(self, what: str) -> None:
        attempt = self.manager.living()[0]
        state = self.manager.orders[attempt]
        if state == "waiting" and what in ("runs", "completes"):
            self.manager.orders[attempt] = "running"
            self.box.append([TaskStarted("job", attempt, "n1", 0, 0.0, 7)])
            if what == "completes":
                self.box.append([TaskExited("job", attempt, "n1", 0, 0.0, code=0)])
        elif state == "running" and what == "obeys" and self.box.get(attempt, "end") is not None:
            self.manager.orders[attempt] = "over"
            self.box.append([TasksEnded("job", attempt, "n1", 0.0)])
        elif what == "is killed" or state == "ending":
            self.manager.orders[attempt] = "over"

    def check(self) -> None:
        """One order at a time, none twice; nothing lives that was told to be over."""
        living = self.manager.living()
        assert len(living) <= 1
        assert len(set(self.manager.ordered)) == len(self.manager.ordered)
        ended = {event.attempt for event in self.box.events()[0] if isinstance(event, TasksEnded)}
        assert not ended & set(living)

    def finish(self) -> None:
        """Ended, every attempt that was named is confirmed, whatever happened before."""
        for attempt in sorted(self.named):
            self.end(attempt)
        for _round in range(4):
            self.settle()
            if self.manager.living():
                self.warden("obeys")
        self.deliver()
        assert self.manager.living() == []
        assert self.named <= {event.attempt for event in self.delivered if isinstance(event, TasksEnded)}
        self.settle()
        assert self.part.rests


@settings(max_examples=400 if os.environ.get("OGAI_SOAK") == "1" else 40, deadline=None)
@given(
    st.lists(
        st.sampled_from([name for name, n in OPERATIONS.items() for _ in range(n)]), min_size=8, max_size=50
    )
)
def test_killed_between_any_two_steps_nothing_runs_twice_or_is_forgotten(operations: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder))
        for operation in operations:
            site.do(operation)
            site.check()
        site.finish()
