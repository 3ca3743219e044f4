"""What one pass of the loop changed, and how it is written: rows at the version they were read at."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, and_, bindparam, insert, select, update

from l2_aistation._kit.problems import Conflict
from l2_aistation.core.attempt import Attempt
from l2_aistation.core.healing import Cause
from l2_aistation.core.pool import ClusterFacts
from l2_aistation.core.world import Job, Queue

from . import tables
from .rows import attempt_row, dump, facts_text, job_row, new_attempt_row, new_job_row, queue_row


class Batch:
    """What is to be written together."""

    def __init__(self) -> None:
        self.new_jobs: dict[str, tuple[Job, str | None]] = {}
        self.jobs: dict[str, Job] = {}
        self.new_attempts: dict[tuple[str, int], Attempt] = {}
        self.attempts: dict[tuple[str, int], Attempt] = {}
        self.steps: list[dict[str, Any]] = []
        self.faults: list[dict[str, Any]] = []
        self.queues: dict[str, Queue] = {}
        self.nodes: dict[str, tuple[bool, str]] = {}
        self.cluster: tuple[ClusterFacts, float] | None = None
        self.capacity: list[dict[str, Any]] = []
        self.log: list[dict[str, Any]] = []

    def __bool__(self) -> bool:
        return any(
            (
                self.new_jobs,
                self.jobs,
                self.new_attempts,
                self.attempts,
                self.steps,
                self.faults,
                self.queues,
                self.nodes,
                self.cluster,
                self.capacity,
                self.log,
            )
        )

    def add_job(self, job: Job, submit_key: str | None) -> None:
        """A new job."""
        self.new_jobs[job.id] = (job, submit_key)

    def touch(self, job: Job) -> None:
        """A job whose row changed."""
        if job.id not in self.new_jobs:
            self.jobs[job.id] = job

    def add_attempt(self, attempt: Attempt) -> None:
        """A new attempt."""
        self.new_attempts[attempt.job, attempt.number] = attempt

    def touch_attempt(self, attempt: Attempt) -> None:
        """An attempt whose row changed."""
        key = attempt.job, attempt.number
        if key not in self.new_attempts:
            self.attempts[key] = attempt

    def step(self, job: str, attempt: int, step: int, at: float, loss: float | None) -> None:
        """A step that the job reported."""
        self.steps.append({"job": job, "attempt": attempt, "step": step, "at": at, "loss": loss})

    def fault(self, attempt: Attempt, at: float, cause: Cause) -> None:
        """The named cause of an attempt's end."""
        self.faults.append(
            {
                "job": attempt.job,
                "attempt": attempt.number,
                "at": at,
                "label": cause.label,
                "category": cause.category,
                "node": cause.node,
                "rank": cause.rank,
                "evidence": dump(list(cause.evidence)),
                "action": cause.action,
                "confidence": cause.confidence,
            }
        )

    def note(
        self,
        at: float,
        kind: str,
        *,
        tenant: str | None = None,
        job: str | None = None,
        attempt: int | None = None,
        who: str = "aistation",
        **body: Any,
    ) -> None:
        """An entry of the log."""
        self.log.append(
            {
                "at": at,
                "tenant": tenant,
                "job": job,
                "attempt": attempt,
                "kind": kind,
                "who": who,
                "body": dump(body),
            }
        )


def write(connection: Connection, batch: Batch) -> None:
    """Writes a batch inside a transaction; `Conflict` where somebody else changed a row."""
    if batch.cluster is not None:
        _write_cluster(connection, *batch.cluster)
    for queue in batch.queues.values():
        _write_queue(connection, queue)
    for node, (cordoned, reason) in batch.nodes.items():
        _write_node(connection, node, cordoned, reason)
    _insert(connection, tables.jobs, [new_job_row(*entry) for entry in batch.new_jobs.values()])
    _insert(connection, tables.attempts, [new_attempt_row(item) for item in batch.new_attempts.values()])
    _update(
        connection,
        tables.jobs,
        ("id",),
        [{**job_row(job), "id": job.id, "version": job.version} for job in batch.jobs.values()],
    )
    _update(
        connection,
        tables.attempts,
        ("job", "number"),
        [
            {**attempt_row(item), "job": item.job, "number": item.number, "version": item.version}
            for item in batch.attempts.values()
        ],
    )
    if batch.steps:
        _insert(connection, tables.steps, _new_steps(connection, batch.steps))
    _insert(connection, tables.faults, batch.faults)
    _insert(connection, tables.capacity, batch.capacity)
    _insert(connection, tables.log, batch.log)


def _insert(connection: Connection, table: Any, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(insert(table), rows)


def _update(connection: Connection, table: Any, keys: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    """Writes rows at the version they were read at, each one version on."""
    if not rows:
        return
    same = and_(*(table.c[key] == bindparam(f"key_{key}") for key in (*keys, "version")))
    values: dict[str, Any] = {name: bindparam(name) for name in rows[0] if name not in (*keys, "version")}
    statement = update(table).where(same).values(**values, version=table.c.version + 1)
    changed = 0
    for row in rows:
        parameters = {f"key_{key}": row[key] for key in (*keys, "version")}
        parameters |= {name: row[name] for name in values}
        changed += connection.execute(statement, parameters).rowcount
    if changed != len(rows):
        raise Conflict(
            "a row was changed by somebody else",
            why="two schedulers write to one database",
            do="stop the other `aistation serve`",
        )


def _new_steps(connection: Connection, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Steps that are not there yet: events may come twice."""
    wanted = {(step["job"], step["attempt"], step["step"]): step for step in steps}
    table = tables.steps
    for job, attempt in {(step["job"], step["attempt"]) for step in steps}:
        numbers = [number for one, other, number in wanted if (one, other) == (job, attempt)]
        known = connection.execute(
            select(table.c.step).where(
                table.c.job == job,
                table.c.attempt == attempt,
                table.c.step >= min(numbers),
                table.c.step <= max(numbers),
            )
        ).scalars()
        for number in list(known):
            wanted.pop((job, attempt, number), None)
    return list(wanted.values())


def _write_cluster(connection: Connection, facts: ClusterFacts, at: float) -> None:
    row = {"name": facts.name, "facts": facts_text(facts), "digest": facts.digest, "imported_at": at}
    changed = connection.execute(
        update(tables.cluster)
        .where(tables.cluster.c.id == 1)
        .values(**row, version=tables.cluster.c.version + 1)
    )
    if not changed.rowcount:
        connection.execute(insert(tables.cluster).values(id=1, version=1, **row))


def _write_queue(connection: Connection, queue: Queue) -> None:
    row = queue_row(queue)
    changed = connection.execute(
        update(tables.queues).where(tables.queues.c.name == queue.name).values(**row)
    )
    if not changed.rowcount:
        connection.execute(insert(tables.queues).values(**row))


def _write_node(connection: Connection, node: str, cordoned: bool, reason: str) -> None:
    changed = connection.execute(
        update(tables.nodes)
        .where(tables.nodes.c.id == node)
        .values(cordoned=cordoned, reason=reason, version=tables.nodes.c.version + 1)
    )
    if not changed.rowcount:
        connection.execute(insert(tables.nodes).values(id=node, cordoned=cordoned, reason=reason, version=1))
