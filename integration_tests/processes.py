"""Servers that a program starts and that end with it, also when it is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

import httpx


def start(command: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Starts a server with its output in `log`; the kernel ends it when this process dies."""
    with open(log, "wb") as output:
        return subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent,  # noqa: PLW1509 (one system call, no lock is taken)
        )


def end_with_parent() -> None:
    """Asks the kernel for a SIGTERM when the parent dies (prctl(2), PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def end(child: subprocess.Popen[bytes]) -> None:
    """TERM, then KILL after ten seconds."""
    child.terminate()
    try:
        child.wait(10)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def wait_for(url: str, *, log: Path, patience_s: float = 30) -> None:
    """Waits until a server answers; else ends the program with the place of its log."""
    limit = time.monotonic() + patience_s
    while time.monotonic() < limit:
        try:
            httpx.get(url).raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(0.1)
    raise SystemExit(f"nothing answers at {url}: see {log}")
