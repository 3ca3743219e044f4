"""The engine for many nodes: commands through Celery, events and heartbeats through Redis."""

from __future__ import annotations

import json
import logging
import math
import queue
import threading
import time
from dataclasses import dataclass
from typing import Any

from l2_aistation.broker import Broker, channels, urls
from l2_aistation.broker.private import folder_of
from l2_aistation.core.events import (
    Command,
    Condition,
    EndTasks,
    Event,
    NodeSeen,
    StartTasks,
    TaskExited,
    TasksEnded,
    TaskStarted,
    WarmTasks,
    from_wire,
    to_wire,
)
from l2_aistation.ports import EventSink
from l2_aistation.settings import Settings

_LOOK_S = 0.25
_BLOCK_MS = 500
_BATCH = 500
_AGAIN_S = 5.0
_GIVE_UP_S = 300.0
_TELL_S = 60.0
_log = logging.getLogger(__name__)


def create(settings: Settings) -> AgentEngine:
    """The engine with the settings' broker; `open` starts it."""
    broker = Broker(folder_of(settings), url=settings.broker_url, listen=settings.broker_listen)
    return AgentEngine(broker)


@dataclass(slots=True)
class _Sent:
    command: Command
    first: float
    again: float


class AgentEngine:
    """Talks to the agents.  Three threads: commands out, events in, heartbeats in."""

    name = "agent"

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self._unanswered: dict[tuple[str, str, int, str], _Sent] = {}
        self._lock = threading.Lock()
        self._expected: dict[str, int] = {}
        self._last_id = "0-0"

    def open(self, sink: EventSink) -> None:
        """Starts the broker and begins to deliver; `Unavailable` where the broker cannot be had."""
        self.broker.start()
        for work in (self._send_all, self._receive_all, self._look_for_beats):
            thread = threading.Thread(
                target=self._forever, args=(work, sink), name=work.__name__, daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def send(self, command: Command) -> None:
        """Queues a command for its node's agent and returns at once."""
        self._commands.put(command)

    def close(self) -> None:
        """Stops delivering; agents and tasks go on."""
        self._closing.set()
        self._commands.put(None)
        for thread in self._threads:
            thread.join(10)
        self.broker.stop()

    def _forever(self, work: Any, sink: EventSink) -> None:
        """Runs a part until closing; a broker or a store that does not answer is tried again."""
        connection = urls.client(self.broker.url, socket_timeout=10, socket_connect_timeout=5)
        told = -math.inf
        while not self._closing.is_set():
            try:
                work(connection, sink)
            except Exception as error:  # noqa: BLE001 (nothing may end a part of the engine)
                if time.monotonic() - told > _TELL_S:
                    told = time.monotonic()
                    _log.warning("%s is interrupted and goes on: %s", work.__name__, type(error).__name__)
                self._closing.wait(0.5)
        connection.close()

    # commands

    def _send_all(self, connection: Any, _sink: EventSink) -> None:
        app = channels.celery_app(self.broker.url)
        with app.connection_for_write() as producer_connection:
            while not self._closing.is_set():
                for command in self._due():
                    self._fence(connection, command)
                    app.send_task(
                        channels.COMMAND,
                        args=[to_wire(command)],
                        queue=channels.queue_of(command.node),
                        connection=producer_connection,
                        retry=False,
                    )
                    self._commands_sent(command)

    def _due(self) -> list[Command]:
        """New commands, and those that were not answered for a while: a broker may have lost them."""
        try:
            command = self._commands.get(timeout=_LOOK_S)
        except queue.Empty:
            command = None
        now = time.monotonic()
        with self._lock:
            if command is not None:
                self._unanswered[_key(command)] = _Sent(command, now, now)
            for key, sent in list(self._unanswered.items()):
                if now - sent.first > _GIVE_UP_S:
                    del self._unanswered[key]
            return [sent.command for sent in self._unanswered.values() if sent.again <= now]

    def _commands_sent(self, command: Command) -> None:
        with self._lock:
            sent = self._unanswered.get(_key(command))
            if sent is not None and not isinstance(command, StartTasks | EndTasks):
                del self._unanswered[_key(command)]  # nothing answers these for certain
            elif sent is not None:
                sent.again = time.monotonic() + _AGAIN_S

    def _answered(self, event: Event) -> None:
        if isinstance(event, TaskStarted | TaskExited | TasksEnded):
            kinds = ["StartTasks", "EndTasks"] if isinstance(event, TasksEnded) else ["StartTasks"]
            with self._lock:
                for kind in kinds:
                    self._unanswered.pop((kind, event.job, event.attempt, event.node), None)

    @staticmethod
    def _fence(connection: Any, command: Command) -> None:
        """An attempt that is over, or older than another, can never start from a late command.

        A fence is never lowered: a start that was not answered is sent again, perhaps after a later one.
        """
        if not isinstance(command, StartTasks | EndTasks):
            return
        key = f"{channels.FENCE}{command.job}"
        wanted = command.attempt + isinstance(command, EndTasks)
        newest = int(connection.get(key) or 0)
        connection.set(key, max(newest, wanted), ex=channels.FENCE_TTL_S)

    # events

    def _receive_all(self, connection: Any, sink: EventSink) -> None:
        while not self._closing.is_set():
            answer = connection.xread({channels.EVENTS: self._last_id}, count=_BATCH, block=_BLOCK_MS)
            entries = answer[0][1] if answer else []
            if not entries:
                continue
            events, numbers = self._in_order(connection, entries)
            if events:
                sink(events)
                for event in events:
                    self._answered(event)
                connection.hset(channels.ACKNOWLEDGED, mapping=numbers)
                self._expected.update({source: number + 1 for source, number in numbers.items()})
            self._last_id = entries[-1][0]
            moment, _dash, counter = self._last_id.partition("-")
            connection.xtrim(channels.EVENTS, minid=f"{moment}-{int(counter) + 1}", approximate=False)

    def _in_order(self, connection: Any, entries: list[Any]) -> tuple[list[Event], dict[str, int]]:
        """The events that continue their source's order; a gap makes the agent send again."""
        events: list[Event] = []
        numbers: dict[str, int] = {}
        for _id, members in entries:
            source, number = members["source"], int(members["number"])
            if source not in self._expected:
                self._expected[source] = int(connection.hget(channels.ACKNOWLEDGED, source) or 0) + 1
            expected = numbers[source] + 1 if source in numbers else self._expected[source]
            if number == expected:
                numbers[source] = number
                events.append(from_wire(json.loads(members["event"])))
            elif number > expected:
                connection.sadd(channels.RESEND, source)
        return events, numbers

    # heartbeats

    def _look_for_beats(self, connection: Any, sink: EventSink) -> None:
        """Says which nodes' heartbeats have changed; no clock but this machine's is used."""
        known: dict[str, str] = {}
        while not self._closing.wait(_LOOK_S):
            nodes = sorted(connection.smembers(channels.NODES))
            beats = connection.mget([f"{channels.BEAT}{node}" for node in nodes]) if nodes else []
            now = time.time()
            seen: list[Event] = []
            for node, beat in zip(nodes, beats, strict=True):
                if beat is not None and beat != known.get(node):
                    if node in known:  # the first look finds what an agent left before it died
                        members = json.loads(beat)
                        attempts = tuple((job, attempt) for job, attempt in members["attempts"])
                        condition = Condition.of(members.get("condition"))
                        seen.append(NodeSeen(node, now, members["boot_id"], attempts, condition))
                    known[node] = beat
            if seen:
                sink(seen)


def _key(command: Command) -> tuple[str, str, int, str]:
    return type(command).__name__, command.job, command.attempt, command.node


__all__ = ["AgentEngine", "WarmTasks", "create"]
