"""The engine's threads: commands to boxes, boxes to the manager, events and heartbeats to the platform."""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from l2_aistation._kit.problems import Problem
from l2_aistation.core.events import Command, Event, NodeSeen, StartTasks
from l2_aistation.ports import EventSink
from l2_aistation.supervisor.mailbox import Box

from .manager import Key, Manager, Ticket
from .part import Part

_EVERY_S = 0.1
_TELL_S = 60.0
_FORGET_S = 60.0
_MOST_AT_ONCE = 200
_STRAY_S = 10.0
"""How long an order may outlive its attempt before the manager is asked to end it."""
_log = logging.getLogger(__name__)


class MailboxEngine:
    """Passes the conformance kit over any `Manager`.

    One thread carries between platform and boxes, another between boxes and manager: a manager that
    does not answer holds up no event.
    """

    def __init__(self, manager: Manager, root: Path, *, heartbeat_s: float = 1.0) -> None:
        self.name = manager.name
        self._manager, self._root, self._heartbeat_s = manager, root, heartbeat_s
        self._commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._hurry = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._parts: dict[tuple[str, str], Part] = {}
        self._tickets: Mapping[Key, Ticket] = {}
        self._nodes: Mapping[str, str] = {}
        self._beats: dict[Key, str] = {}
        self._strays: dict[Key, float] = {}
        self._told = -math.inf
        self._turn = 0

    def open(self, sink: EventSink) -> None:
        """Begins to deliver, what happened meanwhile included."""
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        for node in self._root.iterdir():
            for path in node.iterdir() if node.is_dir() else ():
                self._part(node.name, path.name)
        for work, arguments in ((self._carry, (sink,)), (self._manage, ())):
            name = f"{self.name}-{work.__name__}"
            self._threads.append(
                threading.Thread(target=self._forever, args=(work, *arguments), name=name, daemon=True)
            )
            self._threads[-1].start()

    def send(self, command: Command) -> None:
        """Hands a command over and returns at once."""
        self._commands.put(command)

    def close(self) -> None:
        """Stops delivering; wardens and ranks go on."""
        self._closing.set()
        self._hurry.set()
        self._commands.put(None)
        for thread in self._threads:
            thread.join()

    def _part(self, node: str, job: str) -> Part:
        key = (node, job)
        if key not in self._parts:
            self._parts[key] = Part(Box(self._root / node / job))
        return self._parts[key]

    def _forever(self, work: Callable[..., None], *arguments: object) -> None:
        """Repeats a part of the engine until closing; a store, a folder or a manager that does not
        answer is asked again."""
        while not self._closing.is_set():
            try:
                work(*arguments)
            except Exception as error:  # noqa: BLE001 (nothing may end the engine)
                if time.monotonic() - self._told > _TELL_S:
                    self._told = time.monotonic()
                    _log.warning("engine %s is interrupted and goes on: %s", self.name, error)
                self._closing.wait(0.5)

    # between the platform and the boxes

    def _carry(self, sink: EventSink) -> None:
        seen = forgot = -math.inf
        while not self._closing.is_set():
            self._obey()
            self._deliver(sink)
            if time.monotonic() - forgot >= _FORGET_S:
                forgot = time.monotonic()
                self._forget()
            if time.monotonic() - seen >= self._heartbeat_s:
                seen = time.monotonic()
                sink(self._heartbeats())

    def _obey(self) -> None:
        with contextlib.suppress(queue.Empty):
            command = self._commands.get(timeout=_EVERY_S)
            while command is not None:
                with self._lock:
                    self._part(command.node, command.job).take(command)
                self._hurry.set()
                command = self._commands.get_nowait()

    def _deliver(self, sink: EventSink) -> None:
        """Looks into some boxes, others the next time: thousands at once would keep a shared folder busy."""
        with self._lock:
            parts = [part for part in self._parts.values() if not part.rests]
        self._turn = (self._turn + _MOST_AT_ONCE) % max(len(parts), 1) if len(parts) > _MOST_AT_ONCE else 0
        for part in (parts + parts)[self._turn : self._turn + min(_MOST_AT_ONCE, len(parts))]:
            with self._lock:
                events, offset = part.news()
            if events:
                sink(events)
                with self._lock:
                    part.acknowledge(offset)

    def _forget(self) -> None:
        """Removes the boxes of jobs that are long over."""
        with self._lock:
            for key, part in list(self._parts.items()):
                if part.rests and part.forget():
                    del self._parts[key]

    # between the boxes and the manager

    def _manage(self) -> None:
        """Brings the manager's orders to what the boxes say, each heartbeat and after each command."""
        while not self._closing.is_set():
            self._manager.tend()
            self._tickets, self._nodes = self._manager.tickets(), self._manager.nodes()
            self._hurry.clear()
            with self._lock:
                unwanted, wanted = self._settle()
            if unwanted:
                self._manager.cancel(unwanted)
            for part, start in wanted:
                self._order(part, start)
            if not unwanted and not wanted:
                self._hurry.wait(self._heartbeat_s)
            self._closing.wait(_EVERY_S)

    def _settle(self) -> tuple[list[str], list[tuple[Part, StartTasks]]]:
        by_part: dict[tuple[str, str], dict[int, Ticket]] = defaultdict(dict)
        for key, ticket in self._tickets.items():
            by_part[key.node, key.job][key.attempt] = ticket
        unwanted = self._stray()
        wanted: list[tuple[Part, StartTasks]] = []
        for place, part in self._parts.items():
            if not part.rests:
                more, start = part.settle(by_part.get(place, {}), self._manager)
                unwanted += more
                wanted += [] if start is None else [(part, start)]
        return unwanted, wanted

    def _order(self, part: Part, start: StartTasks) -> None:
        try:
            self._manager.submit(start, part.box)
        except Problem as problem:
            self._manager.tend()  # raises where the manager does not answer: then this is no refusal
            with self._lock:
                part.refused(start, f"{self.name} refused the order: {problem}")
        with self._lock:
            part.ordered(start.attempt)

    def _stray(self) -> list[str]:
        """Orders whose attempt is over, or that no box knows."""
        now = time.monotonic()
        strays: dict[Key, float] = {}
        for key, ticket in self._tickets.items():
            part = self._parts.get((key.node, key.job))
            if ticket.state != "over" and (part is None or part.rests):
                strays[key] = self._strays.get(key, now)
        self._strays = strays
        return [self._tickets[key].id for key, since in strays.items() if now - since > _STRAY_S]

    def _heartbeats(self) -> list[Event]:
        """A node where wardens run lives while one of them beats; another while the manager hears it.

        Of a manager that does not answer the last word counts: its silence is no node's fault.
        """
        now = time.time()
        silent: dict[str, bool] = {}
        attempts: dict[str, list[tuple[str, int]]] = defaultdict(list)
        beats: dict[Key, str] = {}
        for key, ticket in self._tickets.items():
            part = self._parts.get((key.node, key.job))
            beat = part.box.last_beat(key.attempt) if part and ticket.state == "running" else ""
            if beat:
                beats[key] = beat
                attempts[key.node].append((key.job, key.attempt))
                silent[key.node] = silent.get(key.node, True) and beat == self._beats.get(key)
        self._beats = beats
        return [
            NodeSeen(node, now, boot, tuple(attempts.get(node, ())))
            for node, boot in self._nodes.items()
            if not silent.get(node, False)
        ]
