"""`python -m l2_aistation.supervisor.warden --box FOLDER --attempt N --shared FOLDER`.

Started by a workload manager as one attempt's part on a node: it is the supervisor itself, with a
thread that carries commands and events between the box and the supervisor's folder on the node's own
disk.  It ends when the attempt is ended, and its ranks end with it, however it ends.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from l2_aistation.core.events import StartTasks, TaskLaunch

from .environment import memory_of
from .folder import JobFolder
from .journal import Reader
from .loop import Supervisor
from .mailbox import Box

VISIBLE = "CUDA_VISIBLE_DEVICES"
_EVERY_S = 0.1


class Bridge(threading.Thread):
    """Carries the end command in and events out, and beats."""

    def __init__(self, box: Box, folder: JobFolder, attempt: int, heartbeat_s: float) -> None:
        super().__init__(daemon=True, name="bridge")
        self._box, self._folder, self._attempt = box, folder, attempt
        self._reader = Reader(folder.journal_path)
        self._beat_rounds = max(1, round(heartbeat_s / _EVERY_S))
        self._stopping = threading.Event()

    def run(self) -> None:
        """Works until told to stop; a shared folder that stalls only delays it."""
        rounds = 0
        while not self._stopping.wait(_EVERY_S):
            if rounds % self._beat_rounds == 0:
                self._box.beat(self._attempt, rounds)
            rounds += 1
            self._carry()

    def _carry(self) -> None:
        if not (self._folder.attempt(self._attempt) / "end.json").exists():
            end = self._box.get(self._attempt, "end")
            if end is not None:
                self._folder.set_number("release", self._attempt)
                self._folder.put(self._attempt, "end", end)
                self._folder.wake()
        self._box.append([line.event for line in self._reader.new()])

    def finish(self) -> None:
        """Carries the rest."""
        self._stopping.set()
        self.join()
        self._carry()


def with_granted_devices(start: StartTasks, environment: Mapping[str, str]) -> StartTasks:
    """The ranks' devices in the words of the manager.

    Which devices of the node a job gets is the manager's choice where it names them in
    CUDA_VISIBLE_DEVICES: the placement's devices, in order, stand for the granted ones.
    """
    granted = [word for word in environment.get(VISIBLE, "").split(",") if word]
    wanted = sorted({place for task in start.tasks for place in task.accelerators})
    if not granted or not wanted:
        return start
    if len(granted) < len(wanted):
        raise SystemExit(f"{len(wanted)} devices were asked for, {VISIBLE} names {len(granted)}")
    names = dict(zip(wanted, granted, strict=False))

    def renamed(task: TaskLaunch) -> TaskLaunch:
        mine = ",".join(names[place] for place in task.accelerators)
        return dataclasses.replace(task, environment={**task.environment, VISIBLE: mine})

    return dataclasses.replace(
        start, tasks=tuple(renamed(task) if task.accelerators else task for task in start.tasks)
    )


def main() -> None:
    """Supervises one attempt's part on this node."""
    parser = argparse.ArgumentParser(prog="aistation-warden")
    parser.add_argument("--box", type=Path, required=True)
    parser.add_argument("--attempt", type=int, required=True)
    parser.add_argument("--shared", type=Path, required=True)
    parser.add_argument("--heartbeat", type=float, default=1.0)
    arguments = parser.parse_args()
    box = Box(arguments.box)
    start = box.get(arguments.attempt, "start")
    if start is None:
        raise SystemExit(f"{arguments.box} has no start of attempt {arguments.attempt}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    place = Path(tempfile.mkdtemp(prefix="aistation-"))  # the node's own disk: shared folders may stall
    try:
        folder = JobFolder(place / box.job)
        folder.put(start.attempt, "start", with_granted_devices(start, os.environ))
        bridge = Bridge(box, folder, start.attempt, arguments.heartbeat)
        bridge.start()
        Supervisor(folder, shared=arguments.shared, node=start.node).run()
        bridge.finish()
    finally:
        shutil.rmtree(memory_of(JobFolder(place / box.job).mark), ignore_errors=True)
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
