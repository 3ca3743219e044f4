"""What counts as use of a session, read from the machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Collection
from pathlib import Path

from l2_aistation.supervisor import processes

BUSY_CORES = 0.1
"""Programs below this together are a shell that waits, an editor's server that polls."""

_TICKS = os.sysconf("SC_CLK_TCK")


class IdleClock:
    """How long a session has been idle.  `observe` takes what was seen; time is the caller's."""

    def __init__(self, now: float) -> None:
        self._last = now

    def observe(self, now: float, *, active: bool, last: float | None = None) -> float:
        """Seconds without use: 0 while `active`, else since the newest of what was told as `last`."""
        if active:
            self._last = now
        elif last is not None:
            self._last = max(self._last, min(last, now))
        return now - self._last


class Programs:
    """CPU time of the processes below this one, but for those named as the session's own servers."""

    def __init__(self) -> None:
        self._before: dict[int, int] = {}
        self._at = time.monotonic()

    def cores(self, servers: Collection[int] = ()) -> float:
        """Cores in use since the last call, by processes seen at both."""
        now = {pid: ticks for pid in processes.descendants(os.getpid()) if (ticks := _ticks(pid)) is not None}
        at = time.monotonic()
        spent = sum(
            max(ticks - self._before[pid], 0)
            for pid, ticks in now.items()
            if pid in self._before and pid not in servers
        )
        passed = at - self._at
        self._before, self._at = now, at
        return spent / _TICKS / passed if passed > 0 else 0.0


def _ticks(pid: int) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return sum(int(ticks) for ticks in fields[11:15])  # its own, and its children's that ended
    return None


def typed_at(pids: Collection[int]) -> float | None:
    """When somebody last typed into a terminal of these processes (seconds since the epoch)."""
    times: list[float] = []
    for pid in pids:
        with contextlib.suppress(OSError):
            terminal = str(Path(f"/proc/{pid}/fd/0").readlink())
            if terminal.startswith(("/dev/pts/", "/dev/tty")):
                times.append(Path(terminal).stat().st_atime)
    return max(times, default=None)


def accelerator_use() -> float | None:
    """Use of the busiest visible accelerator, 0 to 1; None where nothing can tell."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    words = [program, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible:
        words.append(f"--id={visible}")
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True)
        return max((int(line) for line in done.stdout.split()), default=0) / 100
    return None
