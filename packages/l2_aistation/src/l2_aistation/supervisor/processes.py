"""Linux processes: who descends from whom, who lives, and how to end them all."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

MARK = "OGAI_SUPERVISED"
"""Environment variable that every process of a job carries; its value names the job's folder."""

_SET_DEATH_SIGNAL = 1  # <linux/prctl.h>
_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


class Entry(NamedTuple):
    """One row of the process table: parent and the kernel's state letter (T: stopped, Z: zombie)."""

    parent: int
    state: str


def become_subreaper() -> None:
    """Orphans among this process's descendants become its children instead of init's."""
    if _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


_SETPRIV = shutil.which("setpriv")
DIE_WITH_PARENT = (_SETPRIV, "--pdeathsig", "KILL", "--") if _SETPRIV else ()
"""Put before a command: the kernel kills it when its parent goes.  A child that needs no Python between
fork and exec starts three times as fast; where there is no setpriv (util-linux), `die_with` does it."""


def die_with(parent: int) -> None:
    """The kernel kills this process when its parent goes; at once where it has gone already."""
    _libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(137)


def find(program: str, environment: Mapping[str, str], folder: Path) -> str:
    """The file that a process started in `folder` would run; `OSError` says why there is none."""
    if "/" in program:
        path = folder / program
        found = shutil.which(path)
        if found is None:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) if path.exists() else _absent()
        return found
    found = shutil.which(program, path=environment.get("PATH", os.defpath))
    if found is None:
        raise _absent()
    return found


def _absent() -> OSError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def entry(pid: int) -> Entry | None:
    """The table's row of a process, None where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    state, parent = stat.rpartition(b")")[2].split()[:2]  # the command's name may hold anything
    return Entry(int(parent), state.decode())


def table() -> dict[int, Entry]:
    """All processes that this one can see."""
    rows = ((int(name), entry(int(name))) for name in os.listdir("/proc") if name.isdigit())
    return {pid: row for pid, row in rows if row is not None}


def descendants(root: int) -> list[int]:
    """The living processes below `root`, parents before children."""
    rows = table()
    found = [root]
    for pid in found:
        found += [child for child, row in rows.items() if row.parent == pid and row.state != "Z"]
    return found[1:]


def kill_all(pids: list[int]) -> None:
    """SIGKILL, which also ends stopped processes; those that are gone already do no harm."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def marked(mark: str) -> list[int]:
    """The processes whose environment carries `MARK=mark`, whoever their parent is now."""
    needle = f"{MARK}={mark}".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if needle in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                found.append(int(name))
    return found


def kill_marked(mark: str, within_s: float = 5.0) -> bool:
    """Ends every process that carries the mark; says whether none is left."""
    until = time.monotonic() + within_s
    while pids := [pid for pid in marked(mark) if (row := entry(pid)) and row.state != "Z"]:
        if time.monotonic() > until:
            return False
        kill_all(pids)
        time.sleep(0.02)
    return True
