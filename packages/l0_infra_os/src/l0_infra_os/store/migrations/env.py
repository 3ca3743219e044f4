"""Alembic's entry: the kit brings the connection and the version table's name."""

from __future__ import annotations

from alembic import context
from l0_infra_os._kit.database import run_migrations
from l0_infra_os.store.tables import Base

run_migrations(context.config, Base.metadata)
