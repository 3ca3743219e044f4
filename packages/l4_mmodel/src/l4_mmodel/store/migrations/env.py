"""Alembic's entry: runs this layer's migrations on the connection it is given."""

from __future__ import annotations

from alembic import context
from l4_mmodel._kit.database import run_migrations
from l4_mmodel.store.tables import metadata

run_migrations(context.config, metadata)
