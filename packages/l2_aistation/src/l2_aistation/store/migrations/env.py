"""Alembic's entry: the shared body with this layer's tables."""

from alembic import context
from l2_aistation._kit.database import run_migrations
from l2_aistation.store.tables import metadata

run_migrations(context.config, metadata)
