"""The published kits assert as tests do; a PostgreSQL of its own for a test that asks for one."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("l2_aistation.testing")


def program(name: str) -> str:
    """A PostgreSQL program on PATH or where Debian keeps it."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    found = str(places[0]) if places else shutil.which(name)
    if found is None:
        pytest.skip(f"PostgreSQL's {name} is not installed (Debian package postgresql)")
    return found


class Server:
    """A PostgreSQL of a test's own, on a Unix socket in a temporary folder."""

    def __init__(self) -> None:
        self.initdb, self.postgres = program("initdb"), program("postgres")
        self.folder = Path(tempfile.mkdtemp(prefix="ogai-pg-"))
        self.url = f"postgresql://ogai@/postgres?host={self.folder}"
        self.options: dict[str, Any] = {
            "cwd": self.folder,
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
        }
        self.process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:  # the server refuses to run as root
            try:
                user = pwd.getpwnam("postgres")
            except KeyError:
                pytest.skip("there is no user postgres to run the server as")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self.options |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    def make(self) -> None:
        data = str(self.folder / "data")
        words = [self.initdb, "-D", data, "-U", "ogai", "-A", "trust", "--no-sync", "-E", "UTF8"]
        subprocess.run(words, check=True, **self.options)

    def start(self) -> None:
        data = str(self.folder / "data")
        words = [self.postgres, "-D", data, "-k", str(self.folder), "-c", "listen_addresses="]
        self.process = subprocess.Popen(words, **self.options)
        wait_for(self.url)

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)  # "fast": sessions are ended
            self.process.wait(timeout=30)
            self.process = None


@pytest.fixture
def database() -> Iterator[Server]:
    """An empty database that lives as long as the test."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra postgresql)")
    server = Server()
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


def wait_for(url: str) -> None:
    import psycopg

    end = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
