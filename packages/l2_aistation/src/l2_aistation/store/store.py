"""The store: one writer (the loop), any number of readers.

A `Batch` collects what one pass of the loop changed; `commit` writes it in one transaction.
"""

from __future__ import annotations

import fcntl
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, func, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from l2_aistation._kit.database import open_database
from l2_aistation._kit.problems import Conflict, Unavailable
from l2_aistation.core.attempt import Attempt
from l2_aistation.core.pool import ClusterFacts
from l2_aistation.core.states import FINAL, AttemptState
from l2_aistation.core.world import Queue

from . import tables
from .batch import Batch, write
from .checkpoint import Checkpointer
from .rows import attempt_of, facts_of, queue_of

Row = Mapping[str, Any]
CLAIM = 7120132
"""The number of PostgreSQL's advisory lock."""


class Store:
    """The database behind the platform."""

    def __init__(self, url: str) -> None:
        self.engine = open_database(url, package="l2_aistation", prefix="l2")
        self.checkpointer = Checkpointer(self.engine)
        self.readers = _read_engine(self.engine)
        self.claimed: Any = None
        self.writer: Connection | None = None

    def claim(self) -> None:
        """Makes this the only scheduler of the database until `close`; `Conflict` where there is one.

        SQLite's file is claimed by a lock beside it, PostgreSQL by an advisory lock of a session: after
        a lost connection it is claimed again.
        """
        taken = Conflict(
            "another aistation schedules from this database", do="stop it, or give this one another database"
        )
        if self.engine.dialect.name == "sqlite" and self.claimed is None:
            self.claimed = open(f"{self.engine.url.database}.lock", "a", encoding="utf-8")  # noqa: SIM115
            try:
                fcntl.flock(self.claimed, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise taken from error
        elif self.engine.dialect.name == "postgresql":
            try:
                if self.claimed is not None:
                    self.claimed.exec_driver_sql("SELECT 1")
                    return
            except SQLAlchemyError:
                self.claimed.close()
                self.claimed = None
            self.claimed = self._session()
            if not self.claimed.exec_driver_sql(f"SELECT pg_try_advisory_lock({CLAIM})").scalar():
                raise taken

    def _session(self) -> Connection:
        try:
            return self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        except DBAPIError as error:
            raise _silent(error) from error

    def close(self) -> None:
        """Closes the connections."""
        self.checkpointer.close()
        self._leave()
        if self.claimed is not None:
            self.claimed.close()
        self.engine.dispose()
        if self.readers is not self.engine:
            self.readers.dispose()

    def commit(self, batch: Batch) -> None:
        """Writes a batch in one transaction; `Unavailable` and nothing written where that fails."""
        try:
            with self._transaction() as connection:
                write(connection, batch)
        except (DBAPIError, sqlite3.Error) as error:
            self._leave()
            raise _silent(error) from error
        for job in batch.jobs.values():
            job.version += 1
        for attempt in batch.attempts.values():
            attempt.version += 1

    def _transaction(self) -> AbstractContextManager[Connection]:
        """A transaction; SQLite's connection is kept open for the next one."""
        if self.engine.dialect.name != "sqlite":
            return self.engine.begin()
        if self.writer is None:
            self.writer = self.engine.connect()
        return _kept(self.writer)

    def _leave(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    def cluster(self) -> ClusterFacts | None:
        """The imported cluster, if any."""
        row = self._one(select(tables.cluster.c.facts))
        return None if row is None else facts_of(row["facts"])

    def cordons(self) -> dict[str, str]:
        """Cordoned nodes and why."""
        rows = self._all(select(tables.nodes).where(tables.nodes.c.cordoned))
        return {row["id"]: row["reason"] for row in rows}

    def queues(self) -> list[Queue]:
        """All queues by name."""
        return [queue_of(row) for row in self._all(select(tables.queues).order_by(tables.queues.c.name))]

    def live_jobs(self) -> list[Row]:
        """The rows of jobs that are not final."""
        final = [str(state) for state in FINAL]
        return self._all(select(tables.jobs).where(tables.jobs.c.state.not_in(final)))

    def live_attempts(self) -> list[Attempt]:
        """The attempts that have not ended, and the last one of each waiting job."""
        ended = str(AttemptState.ENDED)
        rows = self._all(select(tables.attempts).where(tables.attempts.c.state != ended))
        return [attempt_of(row) for row in rows]

    def claims(self) -> list[Row]:
        """What jobs wait for whose victims are still stopping."""
        rows = self._all(select(tables.claims).order_by(tables.claims.c.since))
        return [{**row, "victims": json.loads(row["victims"])} for row in rows]

    def evictions(self, claimants: Sequence[str]) -> list[Row]:
        """Who made whom stop, for these claimants."""
        return self._all(select(tables.evictions).where(tables.evictions.c.claimant.in_(claimants)))

    def windows(self) -> list[Row]:
        """All reservations and maintenance windows."""
        rows = self._all(select(tables.windows).order_by(tables.windows.c.starts_at, tables.windows.c.name))
        return [{**row, "body": json.loads(row["body"])} for row in rows]

    def snapshot(self) -> Row | None:
        """The newest snapshot of the world: `seq` is the journal entry that it includes last."""
        return self._one(select(tables.snapshots).order_by(tables.snapshots.c.seq.desc()))

    def journal(self, after: int, limit: int) -> list[Row]:
        """Cycles of the journal after an entry."""
        entry = tables.journal.c
        query = select(tables.journal).where(entry.seq > after).order_by(entry.seq).limit(limit)
        return [{**row, "entries": json.loads(row["entries"])} for row in self._all(query)]

    def history(self, limit: int = 20_000) -> list[Row]:
        """Jobs that ran to their end, the newest ones, oldest first: what estimates learn from."""
        columns = tables.jobs.c
        wanted = (
            select(
                columns.id,
                columns.tenant,
                columns.owner,
                columns.queue,
                columns.name,
                columns.submitted_at,
                columns.started_at,
                columns.ended_at,
                columns.cause,
                columns.accelerators,
                columns.cpu_milli,
                columns.ran_s,
            )
            .where(columns.ended_at.is_not(None), columns.started_at.is_not(None))
            .where(columns.cause.in_(("completed", "time_limit")))
            .order_by(columns.ended_at.desc())
            .limit(limit)
        )
        return self._all(wanted)[::-1]

    def submitted(self, tenant: str, key: str) -> Row | None:
        """The job that was submitted with a key."""
        return self._one(
            select(tables.jobs).where(tables.jobs.c.tenant == tenant, tables.jobs.c.submit_key == key)
        )

    def job(self, job: str, tenant: str | None) -> Row | None:
        """A job's row, if the tenant may see it."""
        query = select(tables.jobs).where(tables.jobs.c.id == job)
        if tenant is not None:
            query = query.where(tables.jobs.c.tenant == tenant)
        return self._one(query)

    def jobs(
        self,
        tenant: str | None,
        *,
        states: Sequence[str] = (),
        queue: str | None = None,
        limit: int = 100,
        before: float | None = None,
    ) -> list[Row]:
        """Jobs, newest first, without their specs."""
        columns = [column for column in tables.jobs.c if column.name != "spec"]
        query = select(*columns).order_by(tables.jobs.c.submitted_at.desc(), tables.jobs.c.id).limit(limit)
        if tenant is not None:
            query = query.where(tables.jobs.c.tenant == tenant)
        if states:
            query = query.where(tables.jobs.c.state.in_(states))
        if queue is not None:
            query = query.where(tables.jobs.c.queue == queue)
        if before is not None:
            query = query.where(tables.jobs.c.submitted_at < before)
        return self._all(query)

    def members(self, array: str, tenant: str | None) -> list[Row]:
        """The jobs of an array by their index, without their specs."""
        columns = [column for column in tables.jobs.c if column.name != "spec"]
        query = select(*columns).where(tables.jobs.c.array == array).order_by(tables.jobs.c.array_index)
        if self.engine.dialect.name == "sqlite":  # their ids are ARRAY-INDEX: looked up, not searched for
            query = query.where(tables.jobs.c.id > f"{array}-", tables.jobs.c.id < f"{array}.")
        if tenant is not None:
            query = query.where(tables.jobs.c.tenant == tenant)
        return self._all(query)

    def counts(self, tenant: str | None) -> list[Row]:
        """Jobs by queue and state."""
        query = select(tables.jobs.c.queue, tables.jobs.c.state, func.count().label("jobs")).group_by(
            tables.jobs.c.queue, tables.jobs.c.state
        )
        if tenant is not None:
            query = query.where(tables.jobs.c.tenant == tenant)
        return self._all(query)

    def attempts(self, job: str) -> list[Attempt]:
        """A job's attempts in order."""
        query = select(tables.attempts).where(tables.attempts.c.job == job).order_by(tables.attempts.c.number)
        return [attempt_of(row) for row in self._all(query)]

    def faults(self, job: str) -> list[Row]:
        """A job's faults in order."""
        query = select(tables.faults).where(tables.faults.c.job == job).order_by(tables.faults.c.attempt)
        return [{**row, "evidence": json.loads(row["evidence"])} for row in self._all(query)]

    def recent_faults(self, tenant: str | None, limit: int = 50) -> list[Row]:
        """The newest faults of all jobs that a tenant may see."""
        query = (
            select(tables.faults, tables.jobs.c.tenant, tables.jobs.c.name)
            .join(tables.jobs, tables.jobs.c.id == tables.faults.c.job)
            .order_by(tables.faults.c.at.desc())
            .limit(limit)
        )
        if tenant is not None:
            query = query.where(tables.jobs.c.tenant == tenant)
        return [{**row, "evidence": json.loads(row["evidence"])} for row in self._all(query)]

    def steps(self, job: str, after: int = 0, limit: int = 100_000) -> list[Row]:
        """The steps that a job reported, by id."""
        query = (
            select(tables.steps)
            .where(tables.steps.c.job == job, tables.steps.c.id > after)
            .order_by(tables.steps.c.id)
            .limit(limit)
        )
        return self._all(query)

    def step_spans(self, job: str) -> list[Row]:
        """For each attempt that reported steps: when the first and the last came, and how many."""
        at = tables.steps.c.at
        query = (
            select(
                tables.steps.c.attempt,
                func.min(at).label("first_at"),
                func.max(at).label("last_at"),
                func.count().label("steps"),
            )
            .where(tables.steps.c.job == job)
            .group_by(tables.steps.c.attempt)
        )
        return self._all(query)

    def fault_counts(self) -> list[Row]:
        """How many faults of each label there were."""
        label = tables.faults.c.label
        return self._all(
            select(label, tables.faults.c.category, func.count().label("faults")).group_by(
                label, tables.faults.c.category
            )
        )

    def log(
        self,
        *,
        tenant: str | None = None,
        job: str | None = None,
        jobs: Sequence[str] | None = None,
        after: int = 0,
        limit: int = 1000,
    ) -> list[Row]:
        """Entries of the log after a sequence number, oldest first."""
        query = select(tables.log).where(tables.log.c.seq > after).order_by(tables.log.c.seq).limit(limit)
        if tenant is not None:
            query = query.where(tables.log.c.tenant == tenant)
        if job is not None:
            query = query.where(tables.log.c.job == job)
        if jobs is not None:
            query = query.where(tables.log.c.job.in_(jobs))
        return [{**row, "body": json.loads(row["body"])} for row in self._all(query)]

    def pool_digest(self, at: float) -> str | None:
        """The digest of the document that was the pool at a time; None for this machine itself."""
        query = select(tables.log).where(tables.log.c.kind == "pool", tables.log.c.at <= at)
        rows = self._all(query.order_by(tables.log.c.seq.desc()).limit(1))
        return json.loads(rows[0]["body"]).get("digest") if rows else None

    def last_seq(self) -> int:
        """The newest sequence number of the log."""
        row = self._one(select(func.max(tables.log.c.seq).label("seq")))
        return int(row["seq"] or 0) if row else 0

    def _all(self, query: Any) -> list[Row]:
        try:
            with self.readers.connect() as connection:
                return [dict(row) for row in connection.execute(query).mappings()]
        except DBAPIError as error:
            raise _silent(error) from error

    def _one(self, query: Any) -> Row | None:
        rows = self._all(query.limit(1))
        return rows[0] if rows else None


@contextmanager
def _kept(connection: Connection) -> Iterator[Connection]:
    with connection.begin():
        yield connection


def _silent(error: Exception) -> Unavailable:
    why = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    return Unavailable("the database does not answer", why=why, do="look at the database")


def _read_engine(engine: Engine) -> Engine:
    """Readers of SQLite take no write lock; other databases need no second engine."""
    if engine.dialect.name != "sqlite":
        return engine
    readers = create_engine(engine.url)

    @event.listens_for(readers, "connect")
    def on_connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA busy_timeout=30000")
        connection.execute("PRAGMA query_only=ON")

    return readers
