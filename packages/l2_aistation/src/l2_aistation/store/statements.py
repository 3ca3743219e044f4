"""Many rows in few statements.

SQLite gives up the interpreter's lock around every step of a statement, and taking it back from a busy
thread costs up to a switch interval.  So its rows go in one statement for up to `CHUNKS[0]` of them;
other databases take them through their driver's `executemany`, which psycopg sends as a pipeline.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Table

from l2_aistation._kit.problems import Conflict

CHUNKS = (128, 32, 8, 2, 1)
Row = Mapping[str, Any]


def insert_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Inserts rows that have the same keys."""
    if not rows:
        return
    columns = tuple(rows[0])
    for chunk, several in _chunks(connection, rows):
        values = [tuple(row.values()) for row in chunk]
        text = _insert_text(connection.dialect.name, table.name, columns, len(chunk) if several else 1)
        _run(connection, text, values, several=several)


def update_rows(connection: Connection, table: Table, keys: tuple[str, ...], rows: Sequence[Row]) -> None:
    """Writes rows at the `version` they were read at, each one version on; `Conflict` where one is not."""
    if not rows:
        return
    wanted = (*keys, "version")
    columns = tuple(name for name in rows[0] if name not in wanted)
    changed = 0
    for chunk, several in _chunks(connection, rows):
        values = [tuple(row[name] for name in (*columns, *wanted)) for row in chunk]
        text = _update_text(connection.dialect.name, table.name, columns, wanted, len(chunk))
        changed += _run(connection, text, values, several=several)
    if changed != len(rows):
        raise Conflict(
            "a row was changed by somebody else",
            why="two schedulers write to one database",
            do="stop the other `aistation serve`",
        )


def _chunks(connection: Connection, rows: Sequence[Row]) -> Iterator[tuple[Sequence[Row], bool]]:
    """Rows that go together, and whether they go in one statement."""
    if connection.dialect.name != "sqlite":
        yield rows, False
        return
    at = 0
    while at < len(rows):
        size = next(size for size in CHUNKS if size <= len(rows) - at)
        yield rows[at : at + size], True
        at += size


def _run(connection: Connection, text: str, values: list[tuple[Any, ...]], *, several: bool) -> int:
    """Runs a statement and counts the rows that it changed.  SQLite's driver is asked directly."""
    if not several:
        return connection.exec_driver_sql(text, values).rowcount
    flat = values[0] if len(values) == 1 else tuple(itertools.chain.from_iterable(values))
    driver: Any = connection.connection.driver_connection
    count: int = driver.execute(text, flat).rowcount
    return count


@lru_cache(maxsize=256)
def _insert_text(dialect: str, table: str, columns: tuple[str, ...], rows: int) -> str:
    mark = "?" if dialect == "sqlite" else "%s"
    row = f"({', '.join([mark] * len(columns))})"
    names = ", ".join(f'"{name}"' for name in columns)
    return f"INSERT INTO {table} ({names}) VALUES {', '.join([row] * rows)}"  # noqa: S608 (our own names)


@lru_cache(maxsize=256)
def _update_text(
    dialect: str, table: str, columns: tuple[str, ...], wanted: tuple[str, ...], rows: int
) -> str:
    if dialect != "sqlite":
        sets = ", ".join(f'"{name}" = %s' for name in columns)
        same = " AND ".join(f'"{name}" = %s' for name in wanted)
        return f"UPDATE {table} SET {sets}, version = version + 1 WHERE {same}"  # noqa: S608
    row = f"({', '.join(['?'] * (len(columns) + len(wanted)))})"
    sets = ", ".join(f'"{name}" = new.column{number}' for number, name in enumerate(columns, 1))
    same = " AND ".join(
        f'{table}."{name}" = new.column{number}' for number, name in enumerate(wanted, len(columns) + 1)
    )
    rest = f"FROM (VALUES {', '.join([row] * rows)}) AS new WHERE {same}"
    return f"UPDATE {table} SET {sets}, version = version + 1 {rest}"  # noqa: S608
