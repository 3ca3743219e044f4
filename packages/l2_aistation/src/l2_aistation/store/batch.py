"""What one pass of the loop changed, and how it is written: rows at the version they were read at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Table, delete, func, insert, select, update

from l2_aistation.core.attempt import Attempt
from l2_aistation.core.healing import Cause
from l2_aistation.core.pool import ClusterFacts
from l2_aistation.core.world import Job, Queue

from . import tables
from .rows import attempt_row, dump, facts_text, job_row, new_attempt_row, new_job_row, queue_row
from .statements import insert_rows, update_rows


class Batch:
    """What is to be written together."""

    def __init__(self) -> None:
        self.new_jobs: dict[str, tuple[Job, str | None]] = {}
        self.jobs: dict[str, Job] = {}
        self.new_attempts: dict[tuple[str, int], tuple[Attempt, str]] = {}
        self.attempts: dict[tuple[str, int], Attempt] = {}
        self.steps: list[dict[str, Any]] = []
        self.faults: list[dict[str, Any]] = []
        self.queues: dict[str, Queue | None] = {}
        self.nodes: dict[str, tuple[bool, str]] = {}
        self.cluster: tuple[ClusterFacts, float] | None = None
        self.capacity: list[dict[str, Any]] = []
        self.claims: dict[str, dict[str, Any] | None] = {}
        self.evictions: list[dict[str, Any]] = []
        self.windows: dict[str, dict[str, Any] | None] = {}
        self.journal: list[dict[str, Any]] = []
        self.snapshot: tuple[float, str] | None = None
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
                self.claims,
                self.evictions,
                self.windows,
                self.journal,
                self.snapshot,
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

    def add_attempt(self, attempt: Attempt, slots: str) -> None:
        """A new attempt, and its slots as text."""
        self.new_attempts[attempt.job, attempt.number] = attempt, slots

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
        self.note_text(at, kind, dump(body), tenant=tenant, job=job, attempt=attempt, who=who)

    def note_text(
        self,
        at: float,
        kind: str,
        body: str,
        *,
        tenant: str | None = None,
        job: str | None = None,
        attempt: int | None = None,
        who: str = "aistation",
    ) -> None:
        """An entry of the log whose body is JSON already."""
        self.log.append(
            {
                "at": at,
                "tenant": tenant,
                "job": job,
                "attempt": attempt,
                "kind": kind,
                "who": who,
                "body": body,
            }
        )

    def claim(self, job: str, action: str, slots: str, victims: Sequence[str], since: float) -> None:
        """What a job waits for until its victims have stopped."""
        row = {"job": job, "action": action, "slots": slots, "victims": dump(list(victims)), "since": since}
        self.claims[job] = row

    def unclaim(self, job: str) -> None:
        """A claim that is met, or given up."""
        self.claims[job] = None

    def eviction(self, claimant: str, victim: str, at: float) -> None:
        """That a job made another stop: it happens once between the two."""
        self.evictions.append({"claimant": claimant, "victim": victim, "at": at})

    def decided(self, at: float, entry: dict[str, Any]) -> None:
        """A cycle, as it can be run again."""
        self.journal.append({"at": at, "entries": dump(entry)})

    def window(self, name: str, row: dict[str, Any] | None) -> None:
        """A reservation or maintenance window as it is now; None where it was taken away."""
        self.windows[name] = row


def write(connection: Connection, batch: Batch) -> None:
    """Writes a batch inside a transaction; `Conflict` where somebody else changed a row."""
    if batch.cluster is not None:
        _write_cluster(connection, *batch.cluster)
    for name, queue in batch.queues.items():
        _write_queue(connection, name, queue)
    for node, (cordoned, reason) in batch.nodes.items():
        _write_node(connection, node, cordoned, reason)
    insert_rows(connection, tables.jobs, [new_job_row(*entry) for entry in batch.new_jobs.values()])
    insert_rows(
        connection, tables.attempts, [new_attempt_row(*entry) for entry in batch.new_attempts.values()]
    )
    update_rows(
        connection,
        tables.jobs,
        ("id",),
        [{**job_row(job), "id": job.id, "version": job.version} for job in batch.jobs.values()],
    )
    update_rows(
        connection,
        tables.attempts,
        ("job", "number"),
        [
            {**attempt_row(item), "job": item.job, "number": item.number, "version": item.version}
            for item in batch.attempts.values()
        ],
    )
    if batch.steps:
        insert_rows(connection, tables.steps, _new_steps(connection, batch.steps))
    insert_rows(connection, tables.faults, batch.faults)
    insert_rows(connection, tables.capacity, batch.capacity)
    _replace(connection, tables.claims, "job", batch.claims)
    _replace(connection, tables.windows, "name", batch.windows)
    insert_rows(connection, tables.evictions, batch.evictions)
    if batch.snapshot is not None:
        _write_snapshot(connection, *batch.snapshot)
    insert_rows(connection, tables.journal, batch.journal)
    insert_rows(connection, tables.log, batch.log)


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


def _replace(connection: Connection, table: Table, key: str, rows: dict[str, dict[str, Any] | None]) -> None:
    """Rows as they are now: the old ones of these keys go, the new ones come."""
    if rows:
        connection.execute(delete(table).where(table.c[key].in_(list(rows))))
        insert_rows(connection, table, [row for row in rows.values() if row is not None])


def _write_snapshot(connection: Connection, at: float, body: str) -> None:
    """The world from which the journal goes on; what lies before the snapshot before it is dropped."""
    journal, snapshots = tables.journal.c, tables.snapshots.c
    seq = connection.execute(select(func.max(journal.seq))).scalar() or 0
    older = connection.execute(select(func.max(snapshots.seq)).where(snapshots.seq < seq)).scalar()
    connection.execute(delete(tables.snapshots).where(snapshots.seq == seq))
    if older is not None:
        connection.execute(delete(tables.snapshots).where(snapshots.seq < older))
        connection.execute(delete(tables.journal).where(journal.seq <= older))
    connection.execute(insert(tables.snapshots).values(seq=seq, at=at, body=body))


def _write_cluster(connection: Connection, facts: ClusterFacts, at: float) -> None:
    row = {"name": facts.name, "facts": facts_text(facts), "digest": facts.digest, "imported_at": at}
    changed = connection.execute(
        update(tables.cluster)
        .where(tables.cluster.c.id == 1)
        .values(**row, version=tables.cluster.c.version + 1)
    )
    if not changed.rowcount:
        connection.execute(insert(tables.cluster).values(id=1, version=1, **row))


def _write_queue(connection: Connection, name: str, queue: Queue | None) -> None:
    if queue is None:
        connection.execute(delete(tables.queues).where(tables.queues.c.name == name))
        return
    row = queue_row(queue)
    changed = connection.execute(update(tables.queues).where(tables.queues.c.name == name).values(**row))
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
