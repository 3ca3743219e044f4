"""`python -m l2_aistation.launchers.session`: what a job of preset notebook runs.

It ends with 0 when the session was idle for OGAI_IDLE_AFTER_S (the job is then complete and its place
free), and with the server's code when that ends by itself.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Protocol

from l2_aistation._kit.files import atomic_write
from l2_aistation._kit.problems import Problem, Unavailable
from l2_aistation.launchers.notebook import SESSION

from .activity import IdleClock, accelerator_use
from .jupyter import Jupyter
from .ssh import Ssh

_START_S = 60.0
_LOOK_S = 10.0


class Server(Protocol):
    """A way into the session."""

    process: Any

    def describe(self) -> dict[str, Any]:
        """How the owner comes in."""

    def up(self) -> bool:
        """Whether it answers."""

    def activity(self) -> tuple[bool, float | None]:
        """Whether it is in use now, and when it last was."""

    def end(self) -> None:
        """Ends it."""


def main() -> int:
    """Starts the server, tells how to come in, and waits for its end or for idleness."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    shared = Path(os.environ["OGAI_SHARED_DIR"])
    private = Path(tempfile.mkdtemp(prefix="aistation-session-"))
    try:
        server = _server(shared, private)
    except Problem as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 127
    try:
        _wait_until_up(server)
        place = shared / ".aistation" / os.environ["OGAI_JOB"] / os.environ["OGAI_ATTEMPT"] / SESSION
        atomic_write(place, json.dumps(server.describe()), mode=0o600)
        print("the session is up", flush=True)
        try:
            return _watch(server)
        finally:
            place.unlink(missing_ok=True)
    finally:
        server.end()
        shutil.rmtree(private, ignore_errors=True)


def _server(shared: Path, private: Path) -> Server:
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if os.environ["OGAI_SESSION_KIND"] == "ssh":
        return Ssh(host, port, private, os.environ["OGAI_SESSION_PUBLIC_KEY"])
    return Jupyter(host, port, shared / os.environ["OGAI_SESSION_FOLDER"])


def _wait_until_up(server: Server) -> None:
    until = time.monotonic() + _START_S
    while not server.up():
        if time.monotonic() > until or server.process.poll() is not None:
            raise Unavailable("the session's server did not start")
        time.sleep(0.1)


def _watch(server: Server) -> int:
    after = float(os.environ.get("OGAI_IDLE_AFTER_S", "inf"))
    below = float(os.environ.get("OGAI_IDLE_ACCELERATOR_BELOW", "0"))
    look = min(_LOOK_S, after / 5)
    clock = IdleClock(time.time())
    while server.process.poll() is None:
        time.sleep(look)
        idle = clock.observe(time.time(), **_seen(server, below))
        if idle >= after:
            print(f"given back: idle for {idle:.0f} s", flush=True)
            return 0
    return int(server.process.returncode)


def _seen(server: Server, below: float) -> dict[str, Any]:
    """A server that does not answer just now counts as used: nobody loses work to a hiccup."""
    use = accelerator_use()
    try:
        busy, last = server.activity()
    except Exception as error:  # noqa: BLE001 (whatever it is, the session must not end for it)
        print(f"the session's activity cannot be read: {error}", file=sys.stderr, flush=True)
        return {"active": True}
    return {"active": busy or (use is not None and use >= below > 0), "last": last}


if __name__ == "__main__":
    sys.exit(main())
