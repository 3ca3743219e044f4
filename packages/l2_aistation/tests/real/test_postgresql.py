"""The platform on a real PostgreSQL: a private cluster in a temporary folder, on a Unix socket."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
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


@pytest.fixture
def database() -> Iterator[str]:
    """The URL of an empty database of a server that lives as long as the test."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra postgresql)")
    initdb, postgres = program("initdb"), program("postgres")
    folder = Path(tempfile.mkdtemp(prefix="ogai-pg-"))
    options: dict[str, Any] = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if os.geteuid() == 0:  # the server refuses to run as root
        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("there is no user postgres to run the server as")
        os.chown(folder, user.pw_uid, user.pw_gid)
        options |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    data = folder / "data"
    subprocess.run(
        [initdb, "-D", str(data), "-U", "ogai", "-A", "trust", "--no-sync", "-E", "UTF8"],
        check=True,
        **options,
    )
    server = subprocess.Popen(
        [postgres, "-D", str(data), "-k", str(folder), "-c", "listen_addresses="], **options
    )
    url = f"postgresql://ogai@/postgres?host={folder}"
    try:
        wait_for(url)
        yield url
    finally:
        server.terminate()
        server.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


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


def test_a_job_and_a_restart_on_postgresql(database: str, tmp_path: Path) -> None:
    options = Settings.load(home=tmp_path, database_url=database, heartbeat_s=0.2)
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
