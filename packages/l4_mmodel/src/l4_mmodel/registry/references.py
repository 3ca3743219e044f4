"""Who refers to what: content that must be kept, and versions that must not go."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, and_, select

from l4_mmodel.store import tables


def referenced(connection: Connection) -> set[tuple[str, str]]:
    """The (tenant, digest) of everything that a version or a data set names."""
    of_versions = select(tables.versions.c.tenant, tables.files.c.sha256).join(
        tables.versions, tables.files.c.version_id == tables.versions.c.id
    )
    of_datasets = select(tables.datasets.c.tenant, tables.dataset_files.c.sha256).join(
        tables.datasets, tables.dataset_files.c.dataset_id == tables.datasets.c.id
    )
    return {tuple(row) for query in (of_versions, of_datasets) for row in connection.execute(query)}


def referrers(tenant: str, version_id: int, digest: str) -> list[tuple[str, Any]]:
    """Queries for what stands in the way of deleting a version, each with its name."""
    deployments, aliases, versions = tables.deployments, tables.aliases, tables.versions
    based = and_(versions.c.tenant == tenant, versions.c.base_digest == digest)
    live = and_(deployments.c.version_id == version_id, deployments.c.state != "stopped")
    return [
        ("deployment", select(deployments.c.name).where(live)),
        ("alias", select(aliases.c.alias).where(aliases.c.version_id == version_id)),
        ("adapter", select(versions.c.digest).where(based)),
    ]
