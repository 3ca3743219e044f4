"""A layer's database: SQLite in WAL mode by default, PostgreSQL by URL; tables by Alembic.

The version table carries the layer's prefix, so that several layers share one database.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from .files import locked
from .problems import BadInput, Unavailable


def open_database(url: str, *, package: str, prefix: str) -> Engine:
    """The engine for `url`, its tables at the newest revision of `package`'s migrations."""
    engine = connect(url)
    migrate(engine, package=package, prefix=prefix)
    return engine


def sqlite_url(path: Path) -> str:
    """The URL of a SQLite file, its folder made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{path}"


def connect(url: str) -> Engine:
    """An engine with the settings we rely on; `BadInput` for a URL that is none."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise BadInput(
            "is not a database URL", field="database_url", do="use sqlite:///FILE or postgresql://…"
        ) from error
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername.startswith("sqlite") and parsed.database not in (None, "", ":memory:"):
        _private(Path(str(parsed.database)))
    try:
        engine = create_engine(parsed, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise Unavailable(f"no driver for {parsed.drivername}", do=f"pip install {error.name}") from error
    if engine.dialect.name == "sqlite":
        _use_wal(engine)
    return engine


def _private(path: Path) -> None:
    """Makes the file readable by its owner only (SQLite's other files follow it): jobs may hold secrets."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Only a new file is touched: closing one that this process has open would drop SQLite's locks on it
    # (POSIX), and the next process to look in would remove the log that we go on writing to.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _use_wal(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def on_connect(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # SQLAlchemy's BEGIN below is the only one
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=30000"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def on_begin(connection: Any) -> None:
        # A deferred transaction that turns into a writer fails at once when another writer is
        # ahead; taking the write lock at the start waits for it instead.
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def migrate(engine: Engine, *, package: str, prefix: str) -> None:
    """Brings the tables to the newest revision; one process at a time."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", f"{package}:store/migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["version_table"] = f"{prefix}_alembic_version"
    try:
        if engine.dialect.name == "sqlite" and engine.url.database not in (None, "", ":memory:"):
            with locked(Path(f"{engine.url.database}.migrate.lock")), engine.begin() as connection:
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
        else:
            with engine.begin() as connection:
                if engine.dialect.name == "postgresql":
                    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7120130)")
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
    except DBAPIError as error:
        raise Unavailable(
            f"the database does not answer: {error.orig}", field="database_url", do="check the URL"
        ) from error


def run_migrations(config: Any, metadata: Any) -> None:
    """The body of every layer's `store/migrations/env.py`."""
    from alembic import context

    context.configure(
        connection=config.attributes["connection"],
        target_metadata=metadata,
        version_table=config.attributes["version_table"],
        render_as_batch=True,
    )
    context.run_migrations()
