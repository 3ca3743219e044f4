"""Whether a node's ports may be on a tenant's segments."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("l0_node") as table:
        # Of nodes that were there before nothing is known: true is the careful answer.
        table.add_column(sa.Column("connected", sa.Boolean(), nullable=False, server_default=sa.true()))
