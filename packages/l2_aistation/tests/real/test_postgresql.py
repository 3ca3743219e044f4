"""The platform on a real PostgreSQL: a private cluster in a temporary folder, on a Unix socket."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from l2_aistation._kit.problems import Conflict, Unavailable
from l2_aistation._kit.tokens import Principal
from l2_aistation.adapters.this_machine import ThisMachine
from l2_aistation.service import Service, jobs, views
from l2_aistation.settings import Settings

pytestmark = pytest.mark.real
WHO = Principal("system", "operator", "admin")


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


def test_a_job_and_a_restart_on_postgresql(database: Server, tmp_path: Path) -> None:
    options = Settings.load(home=tmp_path, database_url=database.url, heartbeat_s=0.2)
    checked = jobs.check_spec(
        {
            "name": "characters",
            "tasks": [{"command": [sys.executable, "-c", "print('训练')"], "resources": {"cpu_cores": 0.1}}],
        }
    )
    service = Service(options, source=ThisMachine())
    service.start()
    try:
        name = service.call(lambda platform: jobs.submit(platform, WHO, checked, key="k"))
        again = service.call(lambda platform: jobs.submit(platform, WHO, checked, key="k"))
        assert name == again
        state = until_over(service, name)
        assert state == "completed"
    finally:
        service.stop()
    second = Service(options, source=ThisMachine())
    second.start()
    try:
        record = views.record(second, WHO, name)
        assert record.state == "completed"
        assert record.spec.digest == checked.digest
        kinds = [entry["kind"] for entry in second.store.log(job=name)]
        assert [kind for kind in kinds if kind != "refused"][:2] == ["submitted", "placed"]
    finally:
        second.stop()


def until_over(service: Service, name: str) -> str:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        row = service.store.job(name, None)
        assert row is not None
        if row["state"] in ("completed", "failed"):
            return str(row["state"])
        time.sleep(0.1)
    raise AssertionError(f"{name} is not over")


def test_one_scheduler_a_database(database: Server, tmp_path: Path) -> None:
    first = Service(Settings.load(home=tmp_path / "a", database_url=database.url), source=ThisMachine())
    first.start()
    second = Service(Settings.load(home=tmp_path / "b", database_url=database.url), source=ThisMachine())
    try:
        with pytest.raises(Conflict, match="another aistation schedules from this database"):
            second.start()
    finally:
        second.stop()
        first.stop()


def test_the_database_goes_away_and_comes_back(database: Server, tmp_path: Path) -> None:
    options = Settings.load(home=tmp_path, database_url=database.url, heartbeat_s=0.2)
    checked = jobs.check_spec(
        {
            "name": "long",
            "tasks": [{"command": [sys.executable, "-c", "import time; time.sleep(4)"]}],
        }
    )
    service = Service(options, source=ThisMachine())
    service.start()
    try:
        name = service.call(lambda platform: jobs.submit(platform, WHO, checked, key="first"))
        database.stop()
        with pytest.raises(Unavailable):
            service.call(lambda platform: jobs.submit(platform, WHO, checked, key="second"))
        database.start()
        end = time.monotonic() + 30
        while True:
            try:
                other = service.call(lambda platform: jobs.submit(platform, WHO, checked, key="second"))
                break
            except Unavailable:
                assert time.monotonic() < end
                time.sleep(0.2)
        assert until_over(service, name) == "completed"
        assert until_over(service, other) == "completed"
        assert len(service.store.jobs(None)) == 2
        assert [attempt.number for attempt in service.store.attempts(name)] == [1]
    finally:
        service.stop()
