"""Runs probes, each in a process of its own: one that hangs is killed, and that is the finding.

    python -m l2_aistation.health.run PROBE [FOLDER...]     prints findings as JSON

Failing memory or a stalled file system makes whoever touches it hang, often beyond a kill: nobody waits for
such a process longer than its limit.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from . import clock, fabric, gpu, kernel, storage
from .finding import BAD, WARN, Finding

LIMIT_S = 20.0
_HANGS_MEAN = {"gpu": "gpu_hw_unspecified", "storage": "storage_unavailable", "fabric": "nic_hw_fault"}
_PROBES: dict[str, Callable[[list[Path]], list[Finding]]] = {
    kernel.NAME: lambda _folders: kernel.look(),
    gpu.NAME: lambda _folders: gpu.look(),
    fabric.NAME: lambda _folders: fabric.look(),
    storage.NAME: storage.look,
    clock.NAME: lambda _folders: clock.look(),
}


def names() -> list[str]:
    """The probes there are."""
    return list(_PROBES)


def look(
    probes: Sequence[str] | None = None, folders: Sequence[Path] = (), limit_s: float = LIMIT_S
) -> list[Finding]:
    """What the probes find on this machine, all at the same time, none longer than `limit_s`."""
    chosen = list(probes) if probes is not None else names()
    with ThreadPoolExecutor(max_workers=len(chosen) or 1) as pool:
        found = list(pool.map(lambda name: run_apart(name, folders, limit_s), chosen))
    return [finding for findings in found for finding in findings]


def run_apart(name: str, folders: Sequence[Path], limit_s: float) -> list[Finding]:
    """One probe in a process of its own."""
    command = [sys.executable, "-m", "l2_aistation.health.run", name, *map(str, folders)]
    return judge_process(name, command, limit_s)


def judge_process(name: str, command: Sequence[str], limit_s: float) -> list[Finding]:
    """What a probe's process says, or what its silence says."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        output, problem = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()  # in an uninterruptible sleep it stays, and only a thread waits for its end
        threading.Thread(target=process.communicate, daemon=True).start()
        words = f"the probe itself hangs: no answer in {limit_s:.0f} s"
        return [Finding(name, BAD, _HANGS_MEAN.get(name, "hang"), evidence=words)]
    try:
        return [Finding(**value) for value in json.loads(output)]
    except (ValueError, TypeError):
        last = problem.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no output"]
        return [Finding(name, WARN, evidence=f"the probe failed (exit code {process.returncode}): {last[0]}")]


def main() -> None:
    """Runs one probe here and now."""
    name, folders = sys.argv[1], [Path(folder) for folder in sys.argv[2:]]
    json.dump([asdict(finding) for finding in _PROBES[name](folders)], sys.stdout)


if __name__ == "__main__":
    main()
