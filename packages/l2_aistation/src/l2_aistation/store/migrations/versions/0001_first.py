"""The tables of 0.1.0."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "l2_attempts",
        sa.Column("job", sa.String(length=80), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("slots", sa.Text(), nullable=False),
        sa.Column("master_port", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=True),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("cause", sa.String(length=80), nullable=True),
        sa.Column("first_step", sa.BigInteger(), nullable=True),
        sa.Column("last_step", sa.BigInteger(), nullable=True),
        sa.Column("resumed_from", sa.BigInteger(), nullable=True),
        sa.Column("lost_steps", sa.BigInteger(), nullable=False),
        sa.Column("replaced", sa.Text(), nullable=False),
        sa.Column("progress", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("job", "number"),
    )
    op.create_table(
        "l2_cluster",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=80), nullable=True),
        sa.Column("imported_at", sa.Float(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "l2_faults",
        sa.Column("job", sa.String(length=80), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("label", sa.String(length=80), nullable=False),
        sa.Column("category", sa.String(length=80), nullable=False),
        sa.Column("node", sa.String(length=200), nullable=True),
        sa.Column("rank", sa.Integer(), nullable=True),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("action", sa.String(length=40), nullable=False),
        sa.Column("confidence", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("job", "attempt"),
    )
    op.create_table(
        "l2_jobs",
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("owner", sa.String(length=63), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("queue", sa.String(length=63), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("target", sa.String(length=16), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("spec_digest", sa.String(length=80), nullable=False),
        sa.Column("submit_key", sa.String(length=80), nullable=True),
        sa.Column("submitted_at", sa.Float(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=True),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("cause", sa.String(length=80), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant", "submit_key", name="l2_jobs_submit_key"),
    )
    op.create_index("l2_jobs_by_state", "l2_jobs", ["state"], unique=False)
    op.create_index("l2_jobs_by_tenant", "l2_jobs", ["tenant", "submitted_at"], unique=False)
    op.create_table(
        "l2_log",
        sa.Column("seq", SERIAL, autoincrement=True, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=True),
        sa.Column("job", sa.String(length=80), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("who", sa.String(length=63), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
        sqlite_autoincrement=True,
    )
    op.create_index("l2_log_by_job", "l2_log", ["job", "seq"], unique=False)
    op.create_table(
        "l2_nodes",
        sa.Column("id", sa.String(length=200), nullable=False),
        sa.Column("cordoned", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "l2_queues",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("guarantee_accelerators", sa.Integer(), nullable=False),
        sa.Column("guarantee_cpu_cores", sa.Float(), nullable=False),
        sa.Column("cap_accelerators", sa.Integer(), nullable=True),
        sa.Column("cap_cpu_cores", sa.Float(), nullable=True),
        sa.Column("weight", sa.Float(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "l2_steps",
        sa.Column("id", SERIAL, autoincrement=True, nullable=False),
        sa.Column("job", sa.String(length=80), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("loss", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job", "attempt", "step", name="l2_steps_once"),
    )


def downgrade() -> None:
    op.drop_table("l2_steps")
    op.drop_table("l2_queues")
    op.drop_table("l2_nodes")
    op.drop_index("l2_log_by_job", table_name="l2_log")
    op.drop_table("l2_log")
    op.drop_index("l2_jobs_by_tenant", table_name="l2_jobs")
    op.drop_index("l2_jobs_by_state", table_name="l2_jobs")
    op.drop_table("l2_jobs")
    op.drop_table("l2_faults")
    op.drop_table("l2_cluster")
    op.drop_table("l2_attempts")
