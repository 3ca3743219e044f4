"""One job on one node, as the platform's side sees it: what is wanted, what is known, what to order."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterable, Mapping
from typing import Any

from l2_aistation.core.events import Command, EndTasks, Event, StartTasks, TaskExited, TasksEnded, TaskStarted
from l2_aistation.supervisor.mailbox import Box

from .manager import Manager, Ticket

KEEP_S = 3600.0
"""A finished job's box stays for so long: it answers commands that come late or twice."""

_OBEYS_S = 3.0
"""How long after its grace a warden may take to end, before the manager ends it."""


class Part:
    """Everything here is read from the box; a killed platform makes it again.

    Commands are kept in memory too, and the box's events are read once a round: shared folders are slow.
    """

    def __init__(self, box: Box) -> None:
        self.box = box
        self.rests = False
        self._offset = box.delivered()
        self._answers: list[Event] = []
        self._answered = 0
        self._known: list[Any] = []
        self._read = 0
        self._starts: dict[int, StartTasks] = {n: box.get(n, "start") for n in box.attempts("start")}
        self._ends: dict[int, EndTasks] = {n: box.get(n, "end") for n in box.attempts("end")}
        self._ordered: set[int] = set()
        self._ending: dict[int, float] = {}

    # what the platform says and hears

    def take(self, command: Command) -> None:
        """Writes a command down, or answers what is known already."""
        self.rests = False
        self._look()
        if isinstance(command, StartTasks):
            self._start(command)
        elif isinstance(command, EndTasks):
            if not self._answer_ended(command.attempt):
                self.box.put(command.attempt, "end", command)
                self._ends.setdefault(command.attempt, command)
        elif hasattr(command, "ranks"):
            self._attend(command.attempt, command.ranks)

    def _start(self, command: StartTasks) -> None:
        newest = max([*self._starts, *self._ends], default=0)
        if newest > command.attempt or command.attempt in self._ends:
            return
        if command.attempt in self._starts:
            self._repeat(command.attempt, [task.rank for task in command.tasks])
        else:
            self.box.put(command.attempt, "start", command)
            self._starts[command.attempt] = command

    def _attend(self, attempt: int, ranks: Iterable[int]) -> None:
        self._repeat(attempt, ranks)
        if not self._answer_ended(attempt) and attempt not in self._starts:
            why = "this node does not know the attempt"
            self._answers += [self._lost(attempt, rank, why) for rank in ranks]

    def _answer_ended(self, attempt: int) -> bool:
        ended = self._ended(attempt)
        if ended:
            self._answers.append(self._ended_now(attempt))
        return ended

    def _repeat(self, attempt: int, ranks: Iterable[int]) -> None:
        wanted = set(ranks)
        self._answers += [
            event
            for event in self._known
            if event.attempt == attempt and not isinstance(event, TasksEnded) and event.rank in wanted
        ]

    def _look(self) -> None:
        """Takes in the starts and ends that were written since the last time."""
        news, self._read = self.box.events(self._read)
        self._known += [event for event in news if isinstance(event, TaskStarted | TaskExited | TasksEnded)]

    def _append(self, events: list[Event]) -> None:
        """Tells what no warden can."""
        self.box.append(events)
        self._look()

    def _ended(self, attempt: int) -> bool:
        return any(isinstance(event, TasksEnded) and event.attempt == attempt for event in self._known)

    def _ended_now(self, attempt: int) -> TasksEnded:
        return TasksEnded(self.box.job, attempt, self.box.node, time.time())

    def _lost(self, attempt: int, rank: int, why: str) -> TaskExited:
        return TaskExited(self.box.job, attempt, self.box.node, rank, time.time(), lost=True, tail=(why,))

    def news(self) -> tuple[list[Event], int]:
        """What the platform does not have, and how far that reads."""
        events, offset = self.box.events(self._offset)
        self._answered = len(self._answers)
        return events + self._answers, offset

    def acknowledge(self, offset: int) -> None:
        """The platform has what `news` gave."""
        del self._answers[: self._answered]
        if offset != self._offset:
            self._offset = offset
            self.box.set_delivered(offset)

    # what the manager should do

    def settle(self, tickets: Mapping[int, Ticket], manager: Manager) -> tuple[list[str], StartTasks | None]:
        """Tells what ended without a warden's word; returns the orders to cancel, and the start to order:
        the newest attempt's where it is wanted and its place is free."""
        unwanted: list[str] = []
        wanted = None
        self._look()
        for attempt in self._ends:
            if attempt not in self._starts and not self._ended(attempt):
                self._append([self._ended_now(attempt)])
        open_ones = [attempt for attempt in self._starts if not self._ended(attempt)]
        for attempt in open_ones:
            ticket = tickets.get(attempt)
            if ticket is not None:
                self._ordered.add(attempt)
            newest = attempt == max(self._starts)
            if ticket is not None and ticket.state != "over":
                if not newest or self._overdue(attempt, ticket):
                    unwanted.append(ticket.id)
            elif attempt in self._ends or not newest:
                self._append([self._ended_now(attempt)])
            else:
                wanted = self._wanted(attempt, tickets, manager)
        self.rests = not open_ones and not self._answers and self._offset == self._read
        return unwanted, wanted

    def _overdue(self, attempt: int, ticket: Ticket) -> bool:
        """Whether the manager must end an order: it still waits, or its warden does not obey."""
        end = self._ends.get(attempt)
        if end is None:
            return False
        since = self._ending.setdefault(attempt, time.monotonic())
        return ticket.state == "waiting" or time.monotonic() - since > end.grace_s + _OBEYS_S

    def _wanted(self, attempt: int, tickets: Mapping[int, Ticket], manager: Manager) -> StartTasks | None:
        """Nothing of a wanted attempt is with the manager: it was never ordered, or was lost there."""
        start = self._starts[attempt]
        ticket = tickets.get(attempt)
        if attempt in self._ordered or any(event.attempt == attempt for event in self._known):
            words = f"order {ticket.id} ended: {ticket.why}" if ticket else "the order is not known any more"
            self._tell_rest(start, f"{manager.name}: {words}")
        elif reason := manager.unfit(start):
            self._tell_rest(start, f"{manager.name}: {reason}", code=127)
        elif all(other.state == "over" for other in tickets.values()):
            return start
        return None

    def ordered(self, attempt: int) -> None:
        """The manager was asked for it: it is never asked again."""
        self._ordered.add(attempt)

    def refused(self, start: StartTasks, why: str) -> None:
        """The manager will not have it."""
        self._tell_rest(start, why)

    def _tell_rest(self, start: StartTasks, why: str, code: int | None = None) -> None:
        """Ends the ranks of which no end is known; with a code as one that cannot start."""
        number = start.attempt
        self._look()
        gone = {
            event.rank for event in self._known if isinstance(event, TaskExited) and event.attempt == number
        }
        for task in start.tasks:
            if task.rank in gone:
                continue
            event = self._lost(number, task.rank, why)
            if code is not None:
                event = TaskExited(
                    event.job, number, event.node, event.rank, event.at, code=code, tail=event.tail
                )
            self._append([event])

    def forget(self) -> bool:
        """Removes the box when nobody has asked for a while."""
        with contextlib.suppress(OSError):
            if time.time() - self.box.path.stat().st_mtime > KEEP_S:
                shutil.rmtree(self.box.path)
                return True
        return False
