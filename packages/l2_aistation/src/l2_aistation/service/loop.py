"""The loop: one thread owns the platform; each pass is one transaction.

A pass takes what arrived (requests of users, events of engines, heartbeats, the clock), changes the
platform, runs a scheduling cycle if anything changed, writes all of it at once (group commit), and
only then sends commands, answers the callers and wakes the watchers.  A kill at any point leaves the
store at a pass's boundary; commands are sent again after a restart.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import IO, Any, TypeVar

from l2_aistation._kit.problems import Conflict, Problem, Unavailable
from l2_aistation.core.events import Event, NodeSeen, StartTasks
from l2_aistation.core.placement import kernels
from l2_aistation.core.policy import Policy, default_policies
from l2_aistation.core.pool import ClusterFacts
from l2_aistation.core.recovery import silent_nodes
from l2_aistation.ports import ClusterSource, Engine, PowerSource
from l2_aistation.settings import Settings
from l2_aistation.store import Batch, Store

from . import healing, windows
from .cycles import Cycles
from .engines import Engines, make_engine, make_source
from .metering import CapacityLog
from .platform import Platform
from .recovering import Recovery
from .replies import Answer, LoopReply, deliver

T = TypeVar("T")
Operation = Callable[[Platform], Any]
Item = tuple[Operation, Future[Any] | LoopReply]
MOST_IN_A_PASS = 2000
DEADLINES_EVERY_S = 0.2
COMPILED_FROM = 256
"""Nodes from which on the compiled loops are worth their start."""


log = logging.getLogger(__name__)


class Service:
    """The platform in a thread.  `call` from any thread, `acall` from asyncio."""

    def __init__(
        self,
        settings: Settings,
        *,
        make: Callable[[str, Settings], Engine] = make_engine,
        source: ClusterSource | None = None,
        power: PowerSource | None = None,
        policies: Sequence[Policy] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.store = Store(settings.database)
        self.platform = Platform(self.store, settings, source or make_source(settings), clock)
        self.capacity = CapacityLog()
        self.recovery = Recovery(self.platform, power or make_power(settings))
        self.engines = Engines(settings, make)
        self.cycles = Cycles(self.platform, policies if policies is not None else default_policies())
        self.inbox: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self.beats: dict[str, NodeSeen] = {}
        self.beats_lock = threading.Lock()
        self.watchers: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self.watchers_lock = threading.Lock()
        self.stopping = threading.Event()
        self.thread: threading.Thread | None = None
        self.last_tick = 0.0
        self.passes = 0
        self.opened_for: ClusterFacts | None = None
        self._lock: IO[str] | None = None

    # -- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Takes the lock, loads the platform, opens the engines and runs the loop."""
        self._lock = take_lock(self.settings)
        self.store.claim()
        self.platform.started_at = self.last_tick = self.clock()
        self.platform.load()
        for node in self.platform.facts.nodes:
            self.platform.seen[node.id] = self.platform.started_at
        self._open_engines()
        healing.send_again(self.platform)
        if len(self.platform.facts.nodes) >= COMPILED_FROM:
            threading.Thread(target=kernels.warm, name="aistation-kernels", daemon=True).start()
        self.thread = threading.Thread(target=self._run, name="aistation-loop", daemon=True)
        self.thread.start()

    def _open_engines(self) -> None:
        if self.opened_for is self.platform.facts:
            return
        self.opened_for = self.platform.facts
        names = {node.engine for node in self.platform.facts.nodes}
        if self.settings.broker_listen is not None or self.settings.broker_url is not None:
            names.add("agent")
        if self.settings.engine is not None:
            names.add(self.settings.engine)  # what is missing for it is told at the start
        self.engines.need(names, self.sink)

    def stop(self) -> None:
        """Ends the loop after the pass it is in; tasks go on running."""
        self.engines.close()  # first: what they are handing over right now is still written
        self.stopping.set()
        self.inbox.put((lambda _platform: None, Future()))
        if self.thread is not None:
            self.thread.join(timeout=30)
        self.recovery.close()
        self.store.close()
        if self._lock is not None:
            self._lock.close()

    @property
    def alive(self) -> bool:
        """Whether the loop runs."""
        return self.thread is not None and self.thread.is_alive()

    # -- from outside ----------------------------------------------------------------------------

    def post(self, operation: Callable[[Platform], T]) -> Future[T]:
        """Queues an operation for the next pass; the future is done when it is durable."""
        future: Future[T] = Future()
        self._put(operation, future)
        return future

    def call(self, operation: Callable[[Platform], T], timeout_s: float = 60.0) -> T:
        """Runs an operation in the loop and returns what it answers, once that is durable."""
        return self.post(operation).result(timeout=timeout_s)

    async def acall(self, operation: Callable[[Platform], T]) -> T:
        """`call` for asyncio."""
        reply = LoopReply()
        self._put(operation, reply)
        answer: T = await reply.future
        return answer

    def _put(self, operation: Operation, reply: Future[Any] | LoopReply) -> None:
        if self.stopping.is_set() or not self.alive:
            refused = Unavailable("the scheduler is not running", do="start `aistation serve`")
            deliver([Answer(reply, error=refused)])
        else:
            self.inbox.put((operation, reply))

    def sink(self, events: Sequence[Event]) -> None:
        """The engines' way in: heartbeats are noted, all else returns when it is durable."""
        rest = []
        with self.beats_lock:
            for event in events:
                if isinstance(event, NodeSeen):
                    self.beats[event.node] = event
                else:
                    rest.append(event)
        if rest:
            self.call(lambda platform: _apply_all(platform, rest))

    def watch(self) -> tuple[asyncio.AbstractEventLoop, asyncio.Event]:
        """Registers the running task as a watcher: its event is set after each pass that changed things."""
        watcher = asyncio.get_running_loop(), asyncio.Event()
        with self.watchers_lock:
            self.watchers.add(watcher)
        return watcher

    def unwatch(self, watcher: tuple[asyncio.AbstractEventLoop, asyncio.Event]) -> None:
        """Takes a watcher off."""
        with self.watchers_lock:
            self.watchers.discard(watcher)

    # -- the loop --------------------------------------------------------------------------------

    def _run(self) -> None:
        tick = min(self.settings.heartbeat_s / 2, 0.5)
        while not self.stopping.is_set():
            try:
                self.one_pass(self._arrived(tick))
            except Problem as problem:
                log.error("a pass failed, starting again from the store: %s", problem)  # noqa: TRY400
                self._reload()
            except Exception:
                log.exception("a pass failed, starting again from the store")
                self._reload()
        self._refuse(Unavailable("the scheduler is stopping", do="try again"))

    def _arrived(self, wait_s: float) -> list[Item]:
        wait = self.cycles.wait_s(wait_s)
        try:
            first = self.inbox.get(timeout=wait) if wait else self.inbox.get_nowait()
        except queue.Empty:
            return []
        return [first, *self._drain()]

    def _drain(self) -> list[Item]:
        items: list[Item] = []
        while len(items) < MOST_IN_A_PASS:
            try:
                items.append(self.inbox.get_nowait())
            except queue.Empty:
                break
        return items

    def one_pass(self, items: list[Item]) -> None:
        """Everything that arrived, the clock, a cycle, one commit; then answers and commands."""
        answers: list[Answer] = []
        try:
            for operation, reply in items:
                try:
                    answers.append(Answer(reply, operation(self.platform)))
                except Problem as problem:
                    answers.append(Answer(reply, error=problem))
            self._tick()
            self.cycles.run_if_due()
            self.capacity.note(self.platform)
            changed = self._commit()
        except BaseException as error:
            deliver(Answer(reply, error=_unavailable(error)) for _, reply in items)
            raise
        deliver(answers)
        self._send()
        self.passes += 1
        if changed:
            self._wake()

    def _refuse(self, problem: Problem) -> None:
        deliver([Answer(reply, error=problem) for _, reply in self._drain()])

    def _tick(self) -> None:
        now = self.clock()
        with self.beats_lock:
            beats, self.beats = self.beats, {}
        for beat in beats.values():
            healing.seen(self.platform, beat)
        if not 0 <= now - self.last_tick < min(DEADLINES_EVERY_S, self.settings.node_lost_s / 4):
            gap, self.last_tick = now - self.last_tick, now
            for node in silent_nodes(self.platform.seen, now, self.settings.node_lost_s, gap):
                healing.lost(self.platform, node)
            healing.watch_deadlines(self.platform, now)
            windows.forget_old(self.platform, now)
        self.recovery.advance()

    def _commit(self) -> bool:
        platform = self.platform
        batch, platform.batch = platform.batch, Batch()
        if batch:
            self.store.commit(batch)
        return bool(batch)

    def _send(self) -> None:
        """Hands the pass's commands to the engines: what they carry out is durable by now."""
        platform = self.platform
        commands, platform.outbox = platform.outbox, []
        self._open_engines()
        self._fence(commands)
        self.engines.send(platform, commands)

    def _fence(self, commands: Sequence[Any]) -> None:
        """Says in the shared folder which attempt counts, before any rank of a second one starts."""
        newest = {item.job: item.attempt for item in commands if isinstance(item, StartTasks)}
        for job, attempt in newest.items():
            if attempt == 1:
                continue
            folder = self.settings.shared / ".aistation" / job
            try:
                folder.mkdir(parents=True, exist_ok=True)
                neighbour = folder / ".attempt.tmp"
                neighbour.write_text(f"{attempt}\n", encoding="utf-8")
                neighbour.replace(folder / "attempt")
            except OSError:
                log.exception("the shared folder does not answer")

    def _reload(self) -> None:
        """From the store again, as often as it takes; who asks meanwhile is told to try again."""
        while not self.stopping.wait(0.2):
            try:
                self.store.claim()
                self.platform.load()
                self.recovery.forget()
                healing.send_again(self.platform)
                self.cycles.forget()
                return
            except Problem as problem:
                log.error("cannot go on yet: %s", problem)  # noqa: TRY400 (the problem says it all)
                refused: Problem = problem
            except Exception as error:
                log.exception("cannot go on yet")
                refused = _unavailable(error)
            self._refuse(refused)

    def _wake(self) -> None:
        with self.watchers_lock:
            watchers = list(self.watchers)
        for loop, event in watchers:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)


def take_lock(settings: Settings) -> IO[str]:
    """The lock of a state folder, held while the file is open; `Conflict` where another has it."""
    path = settings.state_dir / "aistation.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    stream = open(path, "a", encoding="utf-8")  # noqa: SIM115 (the caller closes it)
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        stream.close()
        raise Conflict(
            "another aistation serves from this state folder",
            why=str(settings.state_dir),
            do="stop it, or give this one its own OGAI_HOME",
        ) from error
    return stream


def make_power(settings: Settings) -> PowerSource | None:
    """The power source that the settings name."""
    if settings.power_source is None:
        return None
    from l2_aistation.adapters.l0_infra_os import InfraOsPower

    return InfraOsPower()


def _apply_all(platform: Platform, events: Sequence[Event]) -> None:
    for event in events:
        healing.apply(platform, event)


def _unavailable(error: BaseException) -> Problem:
    if isinstance(error, Problem):
        return error
    return Unavailable("the scheduler could not write this down", why=str(error), do="try again")
