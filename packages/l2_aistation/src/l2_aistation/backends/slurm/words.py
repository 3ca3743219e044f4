"""Slurm's words: the arguments that we give, the JSON that it answers.  Pure.

The JSON differs between versions (22.05 has names where later ones have lists of names); both are
read.  Source: sbatch(1), squeue(1), and what Slurm 22.05.8 answers.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from l2_aistation.backends.mailbox.manager import Key, Ticket
from l2_aistation.core.events import StartTasks

RUNNING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT"})
WAITING = frozenset(
    {"PENDING", "CONFIGURING", "RESV_DEL_HOLD", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"}
)
_AWAY = frozenset({"DOWN", "FAIL", "UNKNOWN", "FUTURE", "ERROR"})
_AWAY_FLAGS = frozenset({
    "NOT_RESPONDING", "DRAIN", "FAIL", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "REBOOT_ISSUED",
    "INVALID_REG",
})  # fmt: skip
_MIB = 1 << 20


def comment_of(installation: str, start: StartTasks) -> str:
    """What names an order: kept by Slurm with the job, so a killed platform finds it again."""
    return f"ogai/{installation}/{start.node}/{start.job}/{start.attempt}"


def key_of(installation: str, comment: str) -> Key | None:
    """The part that a comment names, None for other people's."""
    words = comment.split("/")
    if len(words) != 5 or words[:2] != ["ogai", installation] or not words[4].isdigit():
        return None
    return Key(words[2], words[3], int(words[4]))


def submission(start: StartTasks, installation: str, output: Path, more: Sequence[str]) -> list[str]:
    """The arguments of sbatch: exactly this node, what the ranks need, never started twice."""
    cores = max(1, math.ceil(sum(task.cpu_milli for task in start.tasks) / 1000))
    memory = sum(task.memory_bytes for task in start.tasks)
    devices = len({place for task in start.tasks for place in task.accelerators})
    words = [
        "--parsable",
        f"--nodelist={start.node}",
        "--nodes=1",
        "--ntasks=1",
        f"--cpus-per-task={cores}",
        "--no-requeue",
        f"--job-name=ogai.{start.job}",
        f"--comment={comment_of(installation, start)}",
        f"--output={output}",
        "--open-mode=append",
    ]
    if memory:
        words.append(f"--mem={math.ceil(memory / _MIB)}M")
    if devices:
        words.append(f"--gres=gpu:{devices}")
    return [*words, *more]


def script(command: Sequence[str]) -> str:
    """The batch script: the warden, in the shell's place."""
    return f"#!/bin/sh\nexec {shlex.join(command)}\n"


def tickets(answer: Mapping[str, Any], installation: str) -> dict[Key, Ticket]:
    """The orders in an answer of `squeue --json`; of two for one part the newest."""
    found: dict[Key, Ticket] = {}
    for job in sorted(answer.get("jobs", []), key=lambda job: int(job["job_id"])):
        key = key_of(installation, job.get("comment") or "")
        if key is None:
            continue
        names = _names(job.get("job_state"))
        why = " ".join([*sorted(names), *_words(job.get("state_reason"))])
        if names & RUNNING:
            found[key] = Ticket(str(job["job_id"]), "running", why)
        elif names & WAITING:
            found[key] = Ticket(str(job["job_id"]), "waiting", why)
        else:
            found[key] = Ticket(str(job["job_id"]), "over", why)
    return found


def nodes(answer: Mapping[str, Any]) -> dict[str, str]:
    """The nodes in an answer of `scontrol show nodes --json` or `sinfo --json` that answer, with the
    time of their last boot."""
    found = {}
    for node in answer.get("nodes", []):
        state, flags = _names(node.get("state")), _names(node.get("state_flags"))
        if not (state & _AWAY or (state | flags) & _AWAY_FLAGS):
            found[str(node["name"])] = str(_number(node.get("boot_time")))
    return found


def _names(value: Any) -> set[str]:
    words = value if isinstance(value, list) else [value or ""]
    return {str(word).upper() for word in words if word}


def _words(reason: Any) -> list[str]:
    return [] if reason in (None, "", "None") else [str(reason)]


def _number(value: Any) -> Any:
    """Later versions wrap numbers: {"set": true, "number": 1}."""
    return value.get("number") if isinstance(value, dict) else value
