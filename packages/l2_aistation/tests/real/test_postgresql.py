"""The platform on a real PostgreSQL: a private cluster in a temporary folder, on a Unix socket."""

from __future__ import annotations

import sys
import time
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


def test_a_job_and_a_restart_on_postgresql(database: Any, tmp_path: Path) -> None:
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


def test_one_scheduler_a_database(database: Any, tmp_path: Path) -> None:
    first = Service(Settings.load(home=tmp_path / "a", database_url=database.url), source=ThisMachine())
    first.start()
    second = Service(Settings.load(home=tmp_path / "b", database_url=database.url), source=ThisMachine())
    try:
        with pytest.raises(Conflict, match="another aistation schedules from this database"):
            second.start()
    finally:
        second.stop()
        first.stop()


def test_the_database_goes_away_and_comes_back(database: Any, tmp_path: Path) -> None:
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
