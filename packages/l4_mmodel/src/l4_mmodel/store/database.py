"""Transactions: every change is one, and leaves an audit row chained to the one before it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, insert, select, text, update

from l4_mmodel._kit.database import open_database

from .tables import audit, generation

FIRST_LINK = "0" * 64
# Built once: composing a statement costs more than running it.
LAST_LINK = select(audit.c.chain).order_by(audit.c.id.desc()).limit(1)
ADD_AUDIT = insert(audit)
COUNT_UP = update(generation).values(value=generation.c.value + 1)


class Store:
    """The database of this layer.

    SQLite has two engines: the writer takes the write lock at the start of a transaction, the reader
    never waits for one.
    """

    def __init__(self, url: str, *, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.writer = open_database(url, package="l4_mmodel", prefix="l4")
        self.reader = self._reader()

    def _reader(self) -> Engine:
        if self.writer.dialect.name != "sqlite":
            return self.writer.execution_options(isolation_level="AUTOCOMMIT")
        return create_engine(self.writer.url, connect_args={"timeout": 30})

    def close(self) -> None:
        """Closes every connection."""
        self.reader.dispose()
        self.writer.dispose()

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection to read from."""
        with self.reader.connect() as connection:
            yield connection

    @contextlib.contextmanager
    def change(self) -> Iterator[Connection]:
        """A transaction: committed at the end, rolled back by an error."""
        with self.writer.begin() as connection:
            yield connection

    def audit(
        self, connection: Connection, *, tenant: str, by: str, action: str, target: str, **detail: Any
    ) -> None:
        """Appends an audit row: who did what to which thing.  `detail` holds no secret."""
        if connection.dialect.name == "postgresql":
            connection.execute(text("LOCK TABLE l4_audit IN EXCLUSIVE MODE"))
        last = connection.execute(LAST_LINK).scalar()
        row = {
            "at": self.clock(),
            "tenant": tenant,
            "by": by,
            "action": action,
            "target": target,
            "detail": detail,
        }
        connection.execute(ADD_AUDIT, {**row, "chain": link(last or FIRST_LINK, row)})

    def audit_rows(self, tenant: str | None, limit: int = 200) -> list[dict[str, Any]]:
        """The newest audit rows, of one tenant or of all."""
        query = select(audit).order_by(audit.c.id.desc()).limit(limit)
        if tenant is not None:
            query = query.where(audit.c.tenant == tenant)
        with self.read() as connection:
            return [dict(row._mapping) for row in connection.execute(query)]

    def broken_audit_row(self) -> int | None:
        """The id of the first audit row that was changed, or follows one taken out; None when whole."""
        last = FIRST_LINK
        with self.read() as connection:
            for found in connection.execute(select(audit).order_by(audit.c.id)):
                row = dict(found._mapping)
                number, chain = row.pop("id"), row.pop("chain")
                if chain != link(last, row):
                    return int(number)
                last = chain
        return None

    def bump(self, connection: Connection) -> None:
        """Tells the gateways that keys or deployments have changed."""
        connection.execute(COUNT_UP)

    def generation(self) -> int:
        """A number that has grown since the last change of keys or deployments."""
        with self.read() as connection:
            return int(connection.execute(select(generation.c.value)).scalar_one())


def link(last: str, row: dict[str, Any]) -> str:
    """The chain value of an audit row: SHA-256 over the one before it and the row itself."""
    body = json.dumps(row, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(f"{last}{body}".encode()).hexdigest()
