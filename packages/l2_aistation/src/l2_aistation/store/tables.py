"""The tables.  Times are seconds since the epoch; JSON is text in its compact form.

Every row that changes has a `version`; every row of a user's has a `tenant`.  `l2_log` is only ever
appended to: it is the decision log, the time line of jobs and the audit trail.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()
Serial = BigInteger().with_variant(Integer, "sqlite")

cluster = Table(
    "l2_cluster",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False),
    Column("facts", Text, nullable=False),
    Column("digest", String(80)),
    Column("imported_at", Float, nullable=False),
    Column("version", Integer, nullable=False),
)

nodes = Table(
    "l2_nodes",
    metadata,
    Column("id", String(200), primary_key=True),
    Column("cordoned", Boolean, nullable=False),
    Column("reason", Text, nullable=False),
    Column("version", Integer, nullable=False),
)

queues = Table(
    "l2_queues",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("guarantee_accelerators", Integer, nullable=False),
    Column("guarantee_cpu_cores", Float, nullable=False),
    Column("cap_accelerators", Integer),
    Column("cap_cpu_cores", Float),
    Column("weight", Float, nullable=False),
    Column("version", Integer, nullable=False),
    Column("parent", String(63)),
    Column("policy", Text, nullable=False, server_default="{}"),
)

jobs = Table(
    "l2_jobs",
    metadata,
    Column("id", String(80), primary_key=True),
    Column("tenant", String(63), nullable=False),
    Column("owner", String(63), nullable=False),
    Column("name", String(63), nullable=False),
    Column("queue", String(63), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("target", String(16)),
    Column("attempt", Integer, nullable=False),
    Column("spec", Text, nullable=False),
    Column("spec_digest", String(80), nullable=False),
    Column("submit_key", String(80)),
    Column("submitted_at", Float, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("cause", String(80)),
    Column("why", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("promised_at", Float),
    Column("accelerators", Integer, nullable=False, server_default="0"),
    Column("cpu_milli", BigInteger, nullable=False, server_default="0"),
    Column("labels", Text, nullable=False, server_default="{}"),
    Column("ran_s", Float, nullable=False, server_default="0"),
    Column("array", String(80)),
    Column("array_index", Integer),
    UniqueConstraint("tenant", "submit_key", name="l2_jobs_submit_key"),
    Index("l2_jobs_by_state", "state", "queue", "tenant"),  # covers counts: no row is read for them
    Index("l2_jobs_by_time", "submitted_at"),
    Index("l2_jobs_by_tenant", "tenant", "submitted_at"),
    Index("l2_jobs_by_end", "ended_at"),
)

attempts = Table(
    "l2_attempts",
    metadata,
    Column("job", String(80), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("state", String(16), nullable=False),
    Column("slots", Text, nullable=False),
    Column("master_port", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("cause", String(80)),
    Column("first_step", BigInteger),
    Column("last_step", BigInteger),
    Column("resumed_from", BigInteger),
    Column("lost_steps", BigInteger, nullable=False),
    Column("replaced", Text, nullable=False),
    Column("progress", Text, nullable=False),
    Column("held", Text),
    Column("fault_at", Float),
    Column("version", Integer, nullable=False),
    Index("l2_attempts_by_end", "ended_at"),
)

steps = Table(
    "l2_steps",
    metadata,
    Column("id", Serial, primary_key=True, autoincrement=True),
    Column("job", String(80), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("at", Float, nullable=False),
    Column("loss", Float),
    UniqueConstraint("job", "attempt", "step", name="l2_steps_once"),
)

faults = Table(
    "l2_faults",
    metadata,
    Column("job", String(80), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("label", String(80), nullable=False),
    Column("category", String(80), nullable=False),
    Column("node", String(200)),
    Column("rank", Integer),
    Column("evidence", Text, nullable=False),
    Column("action", String(40), nullable=False),
    Column("confidence", Float, nullable=False),
)

log = Table(
    "l2_log",
    metadata,
    Column("seq", Serial, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    Column("tenant", String(63)),
    Column("job", String(80)),
    Column("attempt", Integer),
    Column("kind", String(40), nullable=False),
    Column("who", String(63), nullable=False),
    Column("body", Text, nullable=False),
    Index("l2_log_by_job", "job", "seq"),
    sqlite_autoincrement=True,
)

claims = Table(
    "l2_claims",
    metadata,
    Column("job", String(80), primary_key=True),
    Column("action", String(40), nullable=False),
    Column("slots", Text, nullable=False),
    Column("victims", Text, nullable=False),
    Column("since", Float, nullable=False),
)

evictions = Table(
    "l2_evictions",
    metadata,
    Column("claimant", String(80), primary_key=True),
    Column("victim", String(80), primary_key=True),
    Column("at", Float, nullable=False),
)

windows = Table(
    "l2_windows",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("kind", String(20), nullable=False),
    Column("tenant", String(63)),
    Column("starts_at", Float, nullable=False),
    Column("ends_at", Float, nullable=False),
    Column("body", Text, nullable=False),
    Column("created_by", String(63), nullable=False),
    Column("version", Integer, nullable=False),
)

capacity = Table(
    "l2_capacity",
    metadata,
    Column("seq", Serial, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    Column("total", Text, nullable=False),
    Column("out_of_service", Text, nullable=False),
    sqlite_autoincrement=True,
)

journal = Table(
    "l2_journal",
    metadata,
    Column("seq", Serial, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    Column("entries", Text, nullable=False),
    sqlite_autoincrement=True,
)

snapshots = Table(
    "l2_snapshots",
    metadata,
    Column("seq", Serial, primary_key=True, autoincrement=False),
    Column("at", Float, nullable=False),
    Column("body", Text, nullable=False),
)
