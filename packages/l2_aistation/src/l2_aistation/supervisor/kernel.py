"""What the kernel says about the end of a process: memory kills and device errors since a moment."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection
from pathlib import Path

_DEVICE = re.compile(
    r"NVRM|SXid|fallen off the bus|mlx5_|nvme\d|I/O error|EXT4-fs error|XFS .*error|Lustre|nfs: server"
)
_MEMORY_KILL = re.compile(r"(?:Out of memory|out of memory|oom_reaper).*? process (\d+)")


class KernelLog:
    """Kernel messages that came after this object was made; silent where they may not be read."""

    def __init__(self) -> None:
        self._kills = _memory_kills()
        self._messages: int | None = None
        with contextlib.suppress(OSError):
            self._messages = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._messages, 0, os.SEEK_END)
        self._seen: list[str] = []

    def about(self, pids: Collection[int], *, killed: bool) -> list[str]:
        """Lines of evidence: device errors, and with `killed` what tells a memory kill of `pids`."""
        self._seen += self._new_messages()
        found = [line for line in self._seen if _DEVICE.search(line)]
        if killed:
            found += [
                line for line in self._seen if (kill := _MEMORY_KILL.search(line)) and int(kill[1]) in pids
            ]
            more = _memory_kills() - self._kills
            if more > 0:
                found.append(f"cgroup: oom_kill rose by {more}")
        return [f"kernel: {line}" for line in found[-20:]]

    def _new_messages(self) -> list[str]:
        lines: list[str] = []
        while self._messages is not None:
            try:
                record = os.read(self._messages, 8192)
            except BlockingIOError:
                break
            except OSError:  # EPIPE: the ring wrapped, go on with the oldest record left
                continue
            lines.append(record.decode("utf-8", "replace").partition(";")[2].partition("\n")[0])
        return lines

    def close(self) -> None:
        """Frees the descriptor."""
        if self._messages is not None:
            os.close(self._messages)
            self._messages = None


def _memory_kills() -> int:
    """How many processes of this control group the kernel has killed for memory."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _number, controllers, path = line.split(":", 2)
            if controllers == "" or "memory" in controllers.split(","):
                base = Path("/sys/fs/cgroup" if controllers == "" else "/sys/fs/cgroup/memory")
                for name in ("memory.events", "memory.oom_control"):
                    with contextlib.suppress(OSError):
                        text = (base / path.lstrip("/") / name).read_text()
                        found = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
                        if found:
                            return int(found[1])
    return 0
