"""The process beside a rank that makes its checkpoints durable, at the lowest priority.

    python -m l2_aistation.checkpoint.writer

It reads one JSON object a line: first its `Orders`, later `{"saved": step}` after each save and
`{"peer": [host, port, token]}` once the peers are known.  It answers `{"port": n}`, `{"durable": step}`,
`{"replica": step}` and `{"problem": text}`.  When its input ends it finishes what is in memory and goes.

Rank 0's writer opens a step on the storage; the others join with what they hold of it, or say that it is
gone.  So all ranks write the same step, however far apart they are.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from l2_aistation._kit.files import atomic_write

from .replica import ReplicaServer, send
from .segment import Content, Segment
from .storage import Storage, file_of, name_of

POLL_S = 0.05
_GIVE_UP_S = 600.0
_LAST_WORDS_S = 30.0
_OPEN = re.compile(r"^\.step-(\d{8})\.(\d+)$")
_GONE = "gone"
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
_IDLE_CLASS = 3 << 13


@dataclass(frozen=True, slots=True)
class Orders:
    """What a writer is for."""

    folder: str
    memory: str
    run: str
    rank: int
    world_size: int
    attempt: int
    keep: int
    token: str
    rate: float | None = None


class Writer:
    """Writes what its rank has in memory through to the storage and to a peer."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.storage = Storage(Path(orders.folder), keep=orders.keep)
        self.segment = Segment(Path(orders.memory), orders.run, orders.rank)
        self.server = ReplicaServer(Path(orders.memory), orders.run, orders.token)
        self.peer: tuple[str, int] | None = None
        self.ended = threading.Event()
        self._wake = threading.Event()
        self._durable = self._replicated = self._handled = -1

    def run(self) -> None:
        """Serves until the input ends and what is in memory is durable, or cannot become so."""
        self.server.start()
        say({"port": self.server.port})
        if self.orders.rank == 0:
            self.storage.sweep(self.orders.attempt)
        threading.Thread(target=self._listen, daemon=True).start()
        limit = None
        while True:
            moved = self._replicate() | self._persist()
            if self.ended.is_set():
                limit = limit or time.monotonic() + _LAST_WORDS_S
                newest = self._newest()
                if newest is None or newest.step <= self._durable or time.monotonic() > limit:
                    return
            if not moved:
                self._wake.wait(POLL_S if self._waiting() else 10 * POLL_S)
                self._wake.clear()

    def _listen(self) -> None:
        for line in sys.stdin:
            told = json.loads(line)
            if "peer" in told:
                self.peer = (str(told["peer"][0]), int(told["peer"][1]))
            self._wake.set()
        self.ended.set()
        self._wake.set()

    def _newest(self) -> Content | None:
        mine = [one for one in self.segment.contents() if one.attempt == self.orders.attempt]
        return mine[0] if mine else None

    def _waiting(self) -> bool:
        newest = self._newest()
        return newest is not None and newest.step > self._durable

    def _replicate(self) -> bool:
        newest = self._newest()
        if self.peer is None or newest is None or newest.step <= self._replicated:
            return False
        try:
            with self.segment.reading(newest.slot) as (content, raw):
                send(self.peer, self.orders.token, self.orders.run, self.orders.rank, content, raw)
            self._replicated = content.step
            say({"replica": content.step})
        except (OSError, LookupError) as error:
            say({"problem": f"the replica of step {newest.step} was not taken: {error}"})
            self.peer = None if isinstance(error, OSError) else self.peer
        return True

    def _persist(self) -> bool:
        """One step of the common writing of a checkpoint; whether anything was done."""
        step = self._opened()
        if step is None and self.orders.rank == 0:
            step = self._open()
        if step is None or step <= self._durable:
            return False
        if step != self._handled and not self._write_part(step):
            return False
        return self._finish(step)

    def _opened(self) -> int | None:
        """The step that rank 0 has opened for this attempt, or has just committed."""
        names = [found for path in self.storage.folder.glob(".step-*") if (found := _OPEN.match(path.name))]
        mine = [int(found[1]) for found in names if int(found[2]) == self.orders.attempt]
        if mine:
            return max(mine)
        return self._handled if self._handled > self._durable else None

    def _open(self) -> int | None:
        newest = self._newest()
        if newest is None or newest.step <= self._durable:
            return None
        folder = self.storage.folder / f".{name_of(newest.step)}.{self.orders.attempt}"
        folder.mkdir(parents=True, exist_ok=True)
        return newest.step

    def _write_part(self, step: int) -> bool:
        contents = {one.step: one for one in self.segment.contents()}
        if step not in contents:
            if not contents or max(contents) < step:
                return False  # the trainer of this rank has not come so far
            self._tell_gone(step)
            return True
        try:
            with self.segment.reading(contents[step].slot) as (content, raw):
                if content.step != step:
                    self._tell_gone(step)
                    return True
                self.storage.write_rank(step, self.orders.attempt, self.orders.rank, raw, self._pace())
        except LookupError:
            self._tell_gone(step)
        except OSError as error:
            say({"problem": f"the checkpoint of step {step} was not written: {error.strerror or error}"})
            self._tell_gone(step)
        self._handled = step
        return True

    def _tell_gone(self, step: int) -> None:
        self._handled = step
        folder = self.storage.folder / f".{name_of(step)}.{self.orders.attempt}"
        with contextlib.suppress(OSError):
            atomic_write(folder / f"{file_of(self.orders.rank)}.{_GONE}", "")

    def _finish(self, step: int) -> bool:
        """Rank 0 commits when all parts are there; the others see that it has."""
        whole = self.storage.folder / name_of(step)
        folder = self.storage.folder / f".{whole.name}.{self.orders.attempt}"
        if self.orders.rank != 0:
            if folder.exists():
                return False
            done = whole.exists()
            self._durable = step if done else self._durable
            self._handled = step if done else -1
            if done:
                say({"durable": step})
            return True
        if any(folder.glob(f"*.{_GONE}")) or time.time() - folder.stat().st_mtime > _GIVE_UP_S:
            self._abandon(folder, step)
            return True
        if not self.storage.commit(step, self.orders.attempt, self.orders.world_size):
            return False
        self._durable = step
        say({"durable": step})
        return True

    def _abandon(self, folder: Path, step: int) -> None:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
        newest = self._newest()
        if newest is not None and newest.step == step:  # it was not overwritten: writing itself fails
            self._wake.wait(1.0)
        self._handled = -1

    def _pace(self) -> Any:
        """Waits between pieces so that no more than `rate` bytes a second are written."""
        rate, begun, done = self.orders.rate, time.monotonic(), 0

        def wait(count: int) -> None:
            nonlocal done
            done += count
            if rate:
                time.sleep(max(0.0, done / rate - (time.monotonic() - begun)))

        return wait


def say(value: dict[str, Any]) -> None:
    """One line to the trainer; one that is gone does not listen."""
    with contextlib.suppress(OSError):
        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()


def stand_back() -> None:
    """The training comes first: lowest priority for the processor and, where it exists, the disk."""
    with contextlib.suppress(OSError):
        os.nice(19)
    number = _IOPRIO_SET.get(os.uname().machine)
    if number is not None:
        ctypes.CDLL(None, use_errno=True).syscall(number, 1, 0, _IDLE_CLASS)


def main() -> None:
    """Reads its orders and serves."""
    stand_back()
    Writer(Orders(**json.loads(sys.stdin.readline()))).run()


if __name__ == "__main__":
    main()
