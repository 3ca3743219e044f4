"""The first tables."""

from __future__ import annotations

from alembic import op
from l4_mmodel.store.tables import generation, metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())
    op.bulk_insert(generation, [{"id": 1, "value": 0}])


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
