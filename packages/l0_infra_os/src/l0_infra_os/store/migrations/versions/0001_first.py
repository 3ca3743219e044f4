"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "l0_audit",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("actor", sa.String(length=80), nullable=False),
        sa.Column("verb", sa.String(length=32), nullable=False),
        sa.Column("subject", sa.String(length=80), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=True),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "l0_interval",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("node", sa.String(length=63), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("event", sa.String(length=16), nullable=False),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("tenant", sa.String(length=63), nullable=True),
        sa.Column("lease", sa.String(length=32), nullable=True),
        sa.Column("start", sa.Float(), nullable=False),
        sa.Column("end", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_l0_interval_node"), "l0_interval", ["node"], unique=False)
    op.create_index(op.f("ix_l0_interval_tenant"), "l0_interval", ["tenant"], unique=False)
    op.create_index("l0_interval_open", "l0_interval", ["node", "end"], unique=False)
    op.create_table(
        "l0_tenant",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("quota_nodes", sa.Integer(), nullable=True),
        sa.Column("created", sa.Float(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("number"),
    )
    op.create_table(
        "l0_lease",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("nodes", sa.Integer(), nullable=False),
        sa.Column("spares", sa.Integer(), nullable=False),
        sa.Column("flavor", sa.String(length=63), nullable=True),
        sa.Column("image_digest", sa.String(length=71), nullable=True),
        sa.Column("ssh_keys", sa.JSON(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("created", sa.Float(), nullable=False),
        sa.Column("ended", sa.Float(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["l0_tenant.name"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_l0_lease_tenant"), "l0_lease", ["tenant"], unique=False)
    op.create_table(
        "l0_node",
        sa.Column("id", sa.String(length=63), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=64), nullable=False),
        sa.Column("serial", sa.String(length=128), nullable=False),
        sa.Column("bmc_address", sa.String(length=255), nullable=False),
        sa.Column("model", sa.String(length=128), nullable=False),
        sa.Column("flavor", sa.String(length=63), nullable=False),
        sa.Column("leaf", sa.String(length=63), nullable=False),
        sa.Column("rack", sa.String(length=63), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("power", sa.String(length=16), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("due", sa.Float(), nullable=False),
        sa.Column("deadline", sa.Float(), nullable=True),
        sa.Column("order_number", sa.Integer(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("dirty", sa.Boolean(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("lease_id", sa.String(length=32), nullable=True),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("image_digest", sa.String(length=71), nullable=True),
        sa.Column("host_key", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["lease_id"],
            ["l0_lease.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("bmc_address"),
        sa.UniqueConstraint("number"),
        sa.UniqueConstraint("uuid"),
    )
    op.create_index(op.f("ix_l0_node_lease_id"), "l0_node", ["lease_id"], unique=False)
    op.create_index(op.f("ix_l0_node_state"), "l0_node", ["state"], unique=False)
    op.create_index("l0_node_lease_state", "l0_node", ["lease_id", "state"], unique=False)
    op.create_table(
        "l0_port",
        sa.Column("mac", sa.String(length=17), nullable=False),
        sa.Column("node_id", sa.String(length=63), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("fabric", sa.String(length=16), nullable=False),
        sa.Column("link_gbps", sa.Float(), nullable=True),
        sa.Column("observed", sa.String(length=80), nullable=True),
        sa.Column("observed_at", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["node_id"], ["l0_node.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("mac"),
    )
    op.create_index(op.f("ix_l0_port_node_id"), "l0_port", ["node_id"], unique=False)
