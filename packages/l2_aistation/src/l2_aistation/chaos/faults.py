"""The faults that can be put into a training on a loopback cluster, and what each must be called."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from l2_aistation._kit.problems import Failed
from l2_aistation.core.events import TaskStarted
from l2_aistation.loopback import LoopbackCluster
from l2_aistation.supervisor.journal import Reader

RANK = 2
"""The rank that is hit: neither the first nor the last."""

_SLOW_S = 12.0
_STOPPED_S, _RUNNING_S = 0.5, 0.1


class Target(NamedTuple):
    """A running job on a cluster."""

    cluster: LoopbackCluster
    view: dict[str, Any]

    @property
    def job(self) -> str:
        """Its id."""
        return str(self.view["id"])

    @property
    def node(self) -> str:
        """The node of the rank that is hit."""
        places = self.view["attempts"][-1]["placement"]
        return str(next(place["node"] for place in places if place["rank"] == RANK))

    @property
    def checkpoints(self) -> Path:
        """Where the job's checkpoints lie."""
        return self.cluster.shared / str(self.view["spec"]["checkpoint"]["path"])

    def pid(self) -> int:
        """The process of the rank that is hit, as its supervisor has written it down."""
        attempt = self.view["attempts"][-1]["number"]
        for path in (self.cluster.folder / self.node).rglob("events.jsonl"):
            for _, event in Reader(path).new():
                if not isinstance(event, TaskStarted) or event.rank != RANK:
                    continue
                if (event.job, event.attempt) == (self.job, attempt):
                    return event.pid
        raise Failed(f"rank {RANK} has no process on {self.node}")


class Fault(NamedTuple):
    """`labels`: what the diagnosis may call it; empty where the job must run on without a restart."""

    name: str
    meaning: str
    labels: tuple[str, ...]
    inject: Callable[[Target], None]


def _kill(target: Target) -> None:
    os.kill(target.pid(), signal.SIGKILL)


def _stop(target: Target) -> None:
    os.kill(target.pid(), signal.SIGSTOP)


def _slow(target: Target) -> None:
    """Takes most of the processor from a rank for some seconds, shorter each time than a hang."""
    pid, end = target.pid(), time.monotonic() + _SLOW_S

    def hinder() -> None:
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < end:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(_STOPPED_S)
                os.kill(pid, signal.SIGCONT)
                time.sleep(_RUNNING_S)

    threading.Thread(target=hinder, daemon=True).start()


def _nan(target: Target) -> None:
    """Bad data: the program reports no numbers until it is restarted."""
    spoilt = target.cluster.shared / "nan"
    spoilt.touch()

    def clear() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end and len(target.cluster.client.job(target.job)["faults"]) == 0:
            time.sleep(0.1)
        spoilt.unlink(missing_ok=True)

    threading.Thread(target=clear, daemon=True).start()


def _damage(target: Target) -> None:
    """The newest checkpoint on storage is damaged, all memory is lost, and then a rank is killed."""
    steps = sorted(target.checkpoints.glob("step-*"))
    if not steps:
        raise Failed("there is no checkpoint to damage yet")
    part = min(steps[-1].glob("rank-*.safetensors"))
    raw = bytearray(part.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    part.write_bytes(raw)
    pid = target.pid()
    for memory in _memories(target):
        shutil.rmtree(memory, ignore_errors=True)
    os.kill(pid, signal.SIGKILL)


def _memories(target: Target) -> set[Path]:
    found = set()
    for name in target.cluster.names:
        for pid in target.cluster.processes_of(name):
            with contextlib.suppress(OSError):
                for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    if variable.startswith(b"OGAI_MEMORY_DIR="):
                        found.add(Path(variable.partition(b"=")[2].decode()))
    return found


def _node(target: Target) -> None:
    target.cluster.kill_node(target.node)


FAULTS = (
    Fault("kill", "kill -9 of a rank", ("process_killed",), _kill),
    Fault("stop", "a rank is stopped (SIGSTOP)", ("hang",), _stop),
    Fault("slow", "a rank gets a sixth of the processor for 12 s", (), _slow),
    Fault("nan", "losses are no numbers", ("loss_nan",), _nan),
    Fault("checkpoint", "the newest checkpoint is damaged, then kill -9", ("process_killed",), _damage),
    Fault("node", "a node vanishes", ("node_lost",), _node),
)
