"""Servers that a program starts and that end with it, also when it is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import httpx
from l0_infra_os._kit.problems import Failed


def start(
    command: list[str], environment: dict[str, str], log: Path, *, folder: Path | None = None
) -> subprocess.Popen[bytes]:
    """Starts a server with its output in `log`; the kernel ends it when this process dies."""
    with open(log, "wb") as output:
        return subprocess.Popen(
            command,
            cwd=folder,
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


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str, *, log: Path, patience_s: float = 30) -> None:
    """Waits until a server answers; else ends the program with the place of its log."""
    limit = time.monotonic() + patience_s
    while time.monotonic() < limit:
        try:
            httpx.get(url).raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(0.1)
    raise SystemExit(f"stopped: nothing answers at {url}: see {log}")


class Guard:
    """Stops a program by one clear error when a process that it needs has died.

    Inside `with guard:` such a death interrupts the main thread, whatever it waits for.
    """

    def __init__(self) -> None:
        self._needed: dict[str, Callable[[], bool]] = {}
        self._over = threading.Event()
        self._lost = ""

    def needs(self, words: str, lives: Callable[[], bool]) -> None:
        """From now on this has to live; `words` name it and say where to look."""
        self._needed[words] = lives

    def start(
        self, name: str, command: list[str], environment: dict[str, str], log: Path
    ) -> subprocess.Popen[bytes]:
        """Starts a server that has to live from now on."""
        child = start(command, environment, log)
        self.needs(f"{name} (log: {log})", lambda: child.poll() is None)
        return child

    def __enter__(self) -> Self:
        # a shell that starts us in its background has it ignored, and then nothing would interrupt
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        self._over.set()
        if self._lost and kind is not None:
            raise Failed(f"{self._lost} has died", do="give the same command again")

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            self._lost = next((words for words, lives in self._needed.items() if not lives()), "")
            if self._lost:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                return
