"""The store of 0001 with data in it comes up to the newest revision, and nothing it said is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from l2_aistation._kit.database import connect
from l2_aistation.store import Store

SPEC = {
    "schema": "ogai.job-spec/v1",
    "producer": {"name": "old", "version": "0.1"},
    "name": "train",
    "tasks": [{"name": "worker", "count": 4, "command": ["x"], "resources": {"accelerators": 8}}],
}
JOB: dict[str, Any] = {
    "id": "train-1",
    "tenant": "red",
    "owner": "alice",
    "name": "train",
    "queue": "gold",
    "priority": 3,
    "state": "queued",
    "target": None,
    "attempt": 0,
    "spec": json.dumps(SPEC),
    "spec_digest": "sha256:0",
    "submit_key": "key",
    "submitted_at": 1.0,
    "started_at": None,
    "ended_at": None,
    "cause": None,
    "why": "",
    "version": 2,
}
QUEUE: dict[str, Any] = {
    "name": "gold",
    "guarantee_accelerators": 16,
    "guarantee_cpu_cores": 1.5,
    "cap_accelerators": None,
    "cap_cpu_cores": 64.0,
    "weight": 2.0,
    "version": 5,
}
FIRST = {"l2_jobs": JOB, "l2_queues": QUEUE}


def at_revision(url: str, revision: str) -> None:
    """Makes a database as the release of a revision left it."""
    config = Config()
    config.set_main_option("script_location", "l2_aistation:store/migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["version_table"] = "l2_alembic_version"
    engine = connect(url)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        for name, row in FIRST.items():
            table = sa.Table(name, sa.MetaData(), autoload_with=connection)
            connection.execute(sa.insert(table).values(**row))
    engine.dispose()


def check_upgrade_from_first(url: str) -> None:
    """The data of 0001 as the newest revision reads it, and the way back down."""
    at_revision(url, "0001")
    store = Store(url)
    try:
        queue = store.queues()[0]
        assert (queue.name, queue.guarantee_accelerators, queue.cap_cpu_cores) == ("gold", 16, 64.0)
        assert (queue.weight, queue.version) == (2.0, 5)
        row = store.live_jobs()[0]
        assert {name: row[name] for name in JOB} == JOB
        assert (row["accelerators"], row["cpu_milli"], row["labels"]) == (32, 4000, "{}")
        assert (row["promised_at"], row["ran_s"]) == (None, 0)
        assert (row["array"], row["array_index"]) == (None, None)
    finally:
        store.close()
    engine = connect(url)
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", "l2_aistation:store/migrations")
        config.attributes.update(version_table="l2_alembic_version", connection=connection)
        config.set_main_option("path_separator", "os")
        command.downgrade(config, "0001")
        names = {column["name"] for column in sa.inspect(connection).get_columns("l2_jobs")}
        assert names == set(JOB)
    engine.dispose()


def test_data_of_the_first_release_comes_up(tmp_path: Path) -> None:
    check_upgrade_from_first(f"sqlite:///{tmp_path / 'old.db'}")


@pytest.mark.real
def test_data_of_the_first_release_comes_up_on_postgresql(database: Any) -> None:
    check_upgrade_from_first(database.url)
