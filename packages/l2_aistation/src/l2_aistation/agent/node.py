"""A node's agent: takes commands from its queue, sends heartbeats and events.

It holds nothing that is not on disk or on the broker: killed and started again it goes on.  Jobs
live in supervisors, which do not notice.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import math
import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from l2_aistation._kit.problems import BadInput, Conflict, Unavailable
from l2_aistation.broker import channels, urls
from l2_aistation.core.events import Command, Condition, StartTasks, WarmTasks, from_wire, to_wire
from l2_aistation.settings import Settings
from l2_aistation.supervisor.condition import ConditionWatch
from l2_aistation.supervisor.probing import Probing
from l2_aistation.supervisor.runtime import NodeRuntime

_EVERY_S = 0.1
_TEND_S = 1.0
_TELL_S = 60.0
_ASLEEP_S = 8.0
"""How long a command may lie in the queue of an idle agent: it is taken within milliseconds."""
_NODE = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
_log = logging.getLogger(__name__)


def run(node: str, settings: Settings) -> None:
    """Serves as node `node` until SIGTERM; reads the broker's URL and the shared folder from the settings."""
    if not _NODE.match(node):
        raise BadInput(f"{node!r} cannot name a node", field="node", do="use letters, digits, . _ -")
    if settings.broker_url is None:
        raise BadInput(
            "is not set",
            field="broker_url",
            do="set OGAI_L2_BROKER_URL to what `aistation broker url` prints on the platform's machine",
        )
    _check(settings.broker_url, settings.shared)
    folder = settings.state_dir / "agent" / node
    with _alone(folder, node):
        Agent(
            node,
            settings.broker_url,
            folder=folder,
            shared=settings.shared,
            heartbeat_s=settings.heartbeat_s,
            cache=settings.cache_dir,
        ).run()


def _check(url: str, shared: Path) -> None:
    """Tells at once what would never work; a platform that is not up yet is waited for."""
    import redis

    if not shared.is_dir():
        raise Unavailable(
            "the shared folder is not there",
            why=f"{shared} is no folder on this node",
            do="mount the shared storage, or set OGAI_L2_SHARED_DIR to where it is",
        )
    try:
        with urls.client(url, socket_timeout=5, socket_connect_timeout=5) as connection:
            connection.ping()
    except redis.AuthenticationError as error:
        raise BadInput(
            "the broker refuses the password",
            field="broker_url",
            do="set OGAI_L2_BROKER_URL to what `aistation broker url` prints on the platform's machine",
        ) from error
    except redis.RedisError as error:
        _log.warning("the broker does not answer yet: %s", type(error).__name__)


@contextlib.contextmanager
def _alone(folder: Path, node: str) -> Iterator[None]:
    """Two agents of one node would both follow every command."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(folder / "lock", "a", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(
                f"another agent serves node {node} here", why=f"it holds {folder}", do="end it first"
            ) from None
        yield


class Agent:
    """One node: a Celery worker on the node's own queue, and two threads for beats and events."""

    def __init__(
        self,
        node: str,
        url: str,
        *,
        folder: Path,
        shared: Path,
        heartbeat_s: float,
        cache: Path | None = None,
    ) -> None:
        self.node = node
        self._url, self._heartbeat_s = url, heartbeat_s
        self._runtime = NodeRuntime(node, folder, shared)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._living: tuple[tuple[str, int], ...] = ()
        self._boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self._condition = ConditionWatch(folder, cache, self._boot_id)
        self._probing = Probing([shared])
        if cache is not None:
            os.environ["OGAI_CACHE_DIR"] = str(cache)  # what supervisors and ranks inherit
        self._nonce = f"{time.time_ns():x}"
        self._busy = False
        self._ignored_since: float | None = None

    def run(self) -> None:
        """Works until SIGTERM."""
        for work in (self._beat, self._ship):
            threading.Thread(target=self._forever, args=(work,), name=work.__name__, daemon=True).start()
        self._probing.start()
        try:
            self._serve_commands()
        finally:
            self._closing.set()

    def _serve_commands(self) -> None:
        app = channels.celery_app(self._url)

        @app.task(name=channels.COMMAND)
        def command(wire: dict[str, Any]) -> None:
            self._busy = True
            try:
                self.obey(from_wire(wire))
            finally:
                self._busy = False

        warnings.filterwarnings("ignore", module="celery")  # about root and about a default of Celery 6
        logging.getLogger("celery.worker.consumer").setLevel(logging.CRITICAL)  # we tell of the broker
        app.Worker(
            hostname=f"agent@{self.node}",
            queues=[channels.queue_of(self.node)],
            pool_cls="solo",
            concurrency=1,
            without_mingle=True,
            without_gossip=True,
            without_heartbeat=True,
            loglevel="WARNING",
            quiet=True,
        ).start()

    def obey(self, command: Command) -> None:
        """Follows one command; a start that the platform has gone past is passed over."""
        if isinstance(command, StartTasks | WarmTasks) and self._newest(command.job) > command.attempt:
            return
        with self._lock:
            self._runtime.handle(command)

    def _newest(self, job: str) -> int:
        """The attempt that counts; a broker that falls silent just now is asked again."""
        import redis

        for pause_s in (0.5, 1.0, 2.0, 4.0, None):
            try:
                with urls.client(self._url, socket_timeout=10) as connection:
                    return int(connection.get(f"{channels.FENCE}{job}") or 0)
            except redis.RedisError:
                if pause_s is None:
                    raise
                self._closing.wait(pause_s)
        return 0

    def _forever(self, work: Any) -> None:
        """Runs a part until closing; a broker that does not answer is tried again."""
        told = -math.inf
        while not self._closing.is_set():
            try:
                with urls.client(self._url, socket_timeout=5, socket_connect_timeout=5) as connection:
                    work(connection)
            except Exception as error:  # noqa: BLE001 (nothing may end a part of the agent)
                if time.monotonic() - told > _TELL_S:
                    told = time.monotonic()
                    _log.warning("%s waits for the broker: %s", work.__name__, type(error).__name__)
                self._closing.wait(0.5)

    def _beat(self, connection: Any) -> None:
        count = 0
        while True:
            count += 1
            beat = {
                "n": f"{self._nonce}.{count}",
                "boot_id": self._boot_id,
                "attempts": self._living,
                "condition": asdict(self._condition_now()),
            }
            with connection.pipeline(transaction=False) as together:
                together.set(f"{channels.BEAT}{self.node}", json.dumps(beat), ex=channels.BEAT_TTL_S)
                together.sadd(channels.NODES, self.node)
                together.execute()
            if self._asleep(connection.llen(channels.queue_of(self.node))):
                _start_again(self.node)
            if self._closing.wait(self._heartbeat_s):
                return

    def _condition_now(self) -> Condition:
        """What the node's files say, and what the last probes found."""
        found = self._condition.look()
        return replace(found, faults=(*found.faults, *self._probing.faults()))

    def _asleep(self, waiting: int) -> bool:
        """Whether commands wait although nothing is done.

        A Celery worker whose acknowledgement fails while the broker goes away can be left without a
        live connection to its queue, and does not notice.
        """
        if not waiting or self._busy:
            self._ignored_since = None
        elif self._ignored_since is None:
            self._ignored_since = time.monotonic()
        return self._ignored_since is not None and time.monotonic() - self._ignored_since > _ASLEEP_S

    def _ship(self, connection: Any) -> None:
        """Sends events and learns what has arrived.

        A new connection begins with what is not acknowledged: a broker that was killed may have
        lost its last second.
        """
        shipped: dict[str, int] = {}
        looked = 0.0
        while not self._closing.wait(_EVERY_S):
            with self._lock:
                deliveries = [(f"{self.node}/{item.source}", item) for item in self._runtime.events()]
                self._living = self._runtime.living()
            fresh = [(source, item) for source, item in deliveries if item.number > shipped.get(source, 0)]
            with connection.pipeline(transaction=False) as together:
                for source, item in fresh:
                    event = json.dumps(to_wire(item.event))
                    members = {"source": source, "number": item.number, "event": event}
                    together.xadd(channels.EVENTS, members, maxlen=channels.MOST_EVENTS, approximate=True)
                together.execute()
            shipped.update({source: item.number for source, item in fresh})
            if time.monotonic() - looked >= _TEND_S or fresh:
                looked = time.monotonic()
                self._learn(connection, {source: item.source for source, item in deliveries}, shipped)

    def _learn(self, connection: Any, sources: dict[str, str], shipped: dict[str, int]) -> None:
        for source, ours in sources.items():
            number = connection.hget(channels.ACKNOWLEDGED, source)
            if connection.srem(channels.RESEND, source):
                shipped[source] = int(number or 0)
            if number is not None:
                with self._lock:
                    self._runtime.acknowledge(ours, int(number))
        with self._lock, contextlib.suppress(OSError):
            self._runtime.tend()


def _start_again(node: str) -> None:
    """Replaces this process by the same program: jobs live in supervisors and do not notice."""
    _log.warning("agent %s is deaf to its queue and starts again", node)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 (our own words again)
