"""The engine for this machine: supervisors without an agent or a broker between."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from pathlib import Path

from l2_aistation.core.events import Command, NodeSeen
from l2_aistation.ports import EventSink
from l2_aistation.settings import Settings
from l2_aistation.supervisor.condition import ConditionWatch
from l2_aistation.supervisor.runtime import NodeRuntime

THIS_NODE = "local"
"""The id of this machine's node in the default pool."""

_EVERY_S = 0.1
_TEND_S = 1.0
_log = logging.getLogger(__name__)


def create(settings: Settings) -> LocalEngine:
    """The engine with its state under the settings' folder."""
    if settings.cache_dir is not None:
        os.environ["OGAI_CACHE_DIR"] = str(settings.cache_dir)  # what supervisors and ranks inherit
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    watch = ConditionWatch(settings.state_dir / "condition", settings.cache_dir, boot_id)
    return LocalEngine(
        settings.state_dir / "engine", settings.shared, heartbeat_s=settings.heartbeat_s, watch=watch
    )


class LocalEngine:
    """Runs every node that it hears of on this machine; node ids only tell their folders apart."""

    name = "local"

    def __init__(
        self, folder: Path, shared: Path, *, heartbeat_s: float = 1.0, watch: ConditionWatch | None = None
    ) -> None:
        self._folder, self._shared, self._heartbeat_s = folder, shared, heartbeat_s
        self._watch = watch
        self._commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._nodes: dict[str, NodeRuntime] = {}

    def open(self, sink: EventSink) -> None:
        """Begins to deliver events, those of tasks that lived through a restart included."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._shared.mkdir(parents=True, exist_ok=True)
        for path in self._folder.iterdir():
            self._node(path.name)
        self._node(THIS_NODE)
        self._thread = threading.Thread(target=self._work, args=(sink,), name="engine-local", daemon=True)
        self._thread.start()

    def send(self, command: Command) -> None:
        """Hands a command over and returns at once."""
        self._commands.put(command)

    def close(self) -> None:
        """Stops delivering; tasks go on."""
        self._closing.set()
        self._commands.put(None)
        if self._thread is not None:
            self._thread.join()

    def _node(self, node: str) -> NodeRuntime:
        if node not in self._nodes:
            self._nodes[node] = NodeRuntime(node, self._folder / node, self._shared)
        return self._nodes[node]

    def _work(self, sink: EventSink) -> None:
        seen = tended = 0.0
        while not self._closing.is_set():
            self._obey()
            now = time.monotonic()
            try:
                if now - tended >= _TEND_S:
                    tended = now
                    for runtime in self._nodes.values():
                        runtime.tend()
                self._deliver(sink)
                if now - seen >= self._heartbeat_s:
                    seen = now
                    condition = None if self._watch is None else self._watch.look()
                    sink(
                        [
                            NodeSeen(node, time.time(), "", known.living(), condition)
                            for node, known in self._nodes.items()
                        ]
                    )
            except Exception:  # noqa: BLE001 (a store that does not answer must not end the engine)
                _log.exception("events could not be delivered; they are kept and delivered again")
                self._closing.wait(1.0)

    def _obey(self) -> None:
        try:
            command = self._commands.get(timeout=_EVERY_S)
            while command is not None:
                self._node(command.node).handle(command)
                command = self._commands.get_nowait()
        except queue.Empty:
            return
        except Exception:  # noqa: BLE001 (a broken command must not end the engine)
            _log.exception("a command could not be followed; the platform sends it again")

    def _deliver(self, sink: EventSink) -> None:
        for runtime in self._nodes.values():
            deliveries = list(runtime.events())
            if deliveries:
                sink([delivery.event for delivery in deliveries])
                for delivery in deliveries:
                    runtime.acknowledge(delivery.source, delivery.number)
