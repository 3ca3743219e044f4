"""Queue trees, promises, arrays, claims, windows, what metering needs, the journal of decisions.

Rows of 0001 keep their meaning: queues become roots, jobs have no labels and belong to no array.
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    with op.batch_alter_table("l2_queues") as table:
        table.add_column(sa.Column("parent", sa.String(length=63), nullable=True))
        table.add_column(sa.Column("policy", sa.Text(), nullable=False, server_default="{}"))
    with op.batch_alter_table("l2_jobs") as table:
        table.add_column(sa.Column("promised_at", sa.Float(), nullable=True))
        table.add_column(sa.Column("accelerators", sa.Integer(), nullable=False, server_default="0"))
        table.add_column(sa.Column("cpu_milli", sa.BigInteger(), nullable=False, server_default="0"))
        table.add_column(sa.Column("labels", sa.Text(), nullable=False, server_default="{}"))
        table.add_column(sa.Column("ran_s", sa.Float(), nullable=False, server_default="0"))
        table.add_column(sa.Column("array", sa.String(length=80), nullable=True))
        table.add_column(sa.Column("array_index", sa.Integer(), nullable=True))
        table.create_index("l2_jobs_by_end", ["ended_at"], unique=False)
        table.create_index("l2_jobs_by_time", ["submitted_at"], unique=False)
        table.drop_index("l2_jobs_by_state")
        table.create_index("l2_jobs_by_state", ["state", "queue", "tenant"], unique=False)
    _measure_jobs()
    op.create_table(
        "l2_claims",
        sa.Column("job", sa.String(length=80), nullable=False),
        sa.Column("action", sa.String(length=40), nullable=False),
        sa.Column("slots", sa.Text(), nullable=False),
        sa.Column("victims", sa.Text(), nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("job"),
    )
    op.create_table(
        "l2_evictions",
        sa.Column("claimant", sa.String(length=80), nullable=False),
        sa.Column("victim", sa.String(length=80), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("claimant", "victim"),
    )
    op.create_table(
        "l2_windows",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=True),
        sa.Column("starts_at", sa.Float(), nullable=False),
        sa.Column("ends_at", sa.Float(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_by", sa.String(length=63), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    with op.batch_alter_table("l2_attempts") as table:
        table.add_column(sa.Column("held", sa.Text(), nullable=True))
        table.add_column(sa.Column("fault_at", sa.Float(), nullable=True))
        table.create_index("l2_attempts_by_end", ["ended_at"], unique=False)
    op.create_table(
        "l2_capacity",
        sa.Column("seq", SERIAL, autoincrement=True, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("total", sa.Text(), nullable=False),
        sa.Column("out_of_service", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "l2_journal",
        sa.Column("seq", SERIAL, autoincrement=True, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("entries", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "l2_snapshots",
        sa.Column("seq", SERIAL, autoincrement=False, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )


def _measure_jobs() -> None:
    """Fills the size of the jobs that are there: estimates learn from them."""
    connection = op.get_bind()
    names = ("id", "spec", "accelerators", "cpu_milli")
    jobs = sa.table("l2_jobs", *(sa.column(name) for name in names))
    rows = connection.execute(sa.select(jobs.c.id, jobs.c.spec)).all()
    sizes = [{"key": name, **_size(spec)} for name, spec in rows]
    if sizes:
        key: sa.BindParameter[str] = sa.bindparam("key")
        values: dict[str, sa.BindParameter[int]] = {
            "accelerators": sa.bindparam("cards"),
            "cpu_milli": sa.bindparam("cores"),
        }
        connection.execute(sa.update(jobs).where(jobs.c.id == key).values(**values), sizes)


def _size(spec: str) -> dict[str, int]:
    """Accelerators and thousandths of cores of all tasks together."""
    cards = cores = 0
    for group in json.loads(spec).get("tasks", []):
        needs, count = group.get("resources", {}), int(group.get("count", 1))
        cards += count * int(needs.get("accelerators", 0))
        cores += count * round(float(needs.get("cpu_cores", 1)) * 1000)
    return {"cards": cards, "cores": cores}


def downgrade() -> None:
    for name in ("snapshots", "journal", "capacity", "windows", "evictions", "claims"):
        op.drop_table(f"l2_{name}")
    with op.batch_alter_table("l2_attempts") as table:
        table.drop_index("l2_attempts_by_end")
        table.drop_column("fault_at")
        table.drop_column("held")
    with op.batch_alter_table("l2_jobs") as table:
        table.drop_index("l2_jobs_by_state")
        table.create_index("l2_jobs_by_state", ["state"], unique=False)
        table.drop_index("l2_jobs_by_time")
        table.drop_index("l2_jobs_by_end")
        for column in ("array_index", "array", "ran_s", "labels", "cpu_milli", "accelerators", "promised_at"):
            table.drop_column(column)
    with op.batch_alter_table("l2_queues") as table:
        table.drop_column("policy")
        table.drop_column("parent")
