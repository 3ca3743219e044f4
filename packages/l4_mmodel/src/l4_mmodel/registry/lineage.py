"""Lineage: what a version was made from and what was made of it, by digests alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, select

from l4_mmodel.store import tables
from l4_mmodel.store.database import Store

from .manifests import MODEL_SCHEMA, read_model_manifest
from .versions import Version


@dataclass(frozen=True)
class Node:
    """Something with a digest; `label` is its name where the registry knows it."""

    digest: str
    kind: str
    label: str
    known: bool


@dataclass(frozen=True)
class Lineage:
    """A graph: edges run from what was used to what was made of it, named by how."""

    nodes: list[Node]
    edges: list[tuple[str, str, str]]

    def as_json(self) -> dict[str, Any]:
        """Nodes and edges."""
        names = ("from", "to", "how")
        return {
            "nodes": [vars(node) for node in self.nodes],
            "edges": [dict(zip(names, edge, strict=True)) for edge in self.edges],
        }


def lineage(store: Store, version: Version) -> Lineage:
    """The graph around a version: its ancestors, adapters on it, reports and deployments."""
    builder = _Builder(store, version.tenant)
    builder.model(version.digest, version.ref, version.manifest)
    builder.descendants(version)
    return Lineage(list(builder.nodes.values()), sorted(builder.edges))


class _Builder:
    def __init__(self, store: Store, tenant: str) -> None:
        self.store = store
        self.tenant = tenant
        self.nodes: dict[str, Node] = {}
        self.edges: set[tuple[str, str, str]] = set()

    def model(self, digest: str, label: str, manifest: dict[str, Any]) -> None:
        """A model and everything that its manifest names, models of the registry followed up."""
        if digest in self.nodes:
            return
        self.nodes[digest] = Node(digest, "model", label, known=True)
        read = read_model_manifest(manifest, label)
        if read.base is not None:
            self._ancestor(read.base.digest, digest, "base", "model")
        if read.derived_from is not None:
            self._ancestor(read.derived_from, digest, "converted from", "file")
        if read.training is not None:
            for kind in ("dataset", "plan", "job"):
                found = getattr(read.training, kind)
                if found is not None:
                    self._ancestor(found, digest, "trained with", kind)
        for reference in read.inputs:
            kind = reference.schema_.removeprefix("ogai.").partition("/")[0]
            if (reference.digest, digest) not in {edge[:2] for edge in self.edges}:
                self._ancestor(
                    reference.digest, digest, "input", "model" if reference.schema_ == MODEL_SCHEMA else kind
                )

    def _ancestor(self, digest: str, child: str, how: str, kind: str) -> None:
        self.edges.add((digest, child, how))
        versions, datasets = tables.versions, tables.datasets
        names = select(tables.models.c.name, versions.c.number, versions.c.manifest).join(
            versions, versions.c.model_id == tables.models.c.id
        )
        with self.store.read() as connection:
            where = and_(versions.c.tenant == self.tenant, versions.c.digest == digest)
            row = connection.execute(names.where(where)).first()
            named = select(datasets.c.name, datasets.c.number)
            data = connection.execute(
                named.where(datasets.c.tenant == self.tenant, datasets.c.digest == digest)
            ).first()
        if row is not None:
            self.model(digest, f"{row.name}@{row.number}", row.manifest)
        elif digest not in self.nodes:
            label = f"{data.name}@{data.number}" if data else digest[7:19]
            self.nodes[digest] = Node(digest, "dataset" if data else kind, label, known=data is not None)

    def descendants(self, version: Version) -> None:
        """Adapters, reports and deployments of the version."""
        versions, reports, deployments = tables.versions, tables.evaluations, tables.deployments
        adapters = select(tables.models.c.name, versions.c.number, versions.c.digest).join(
            versions, versions.c.model_id == tables.models.c.id
        ).where(versions.c.tenant == self.tenant, versions.c.base_digest == version.digest)  # fmt: skip
        evaluated = select(reports.c.suite, reports.c.digest).where(reports.c.version_id == version.id)
        deployed = select(deployments.c.name, deployments.c.state, deployments.c.id).where(
            deployments.c.version_id == version.id
        )
        with self.store.read() as connection:
            for name, number, digest in connection.execute(adapters):
                self._child(version, digest, "model", f"{name}@{number}", "base")
            for suite, digest in connection.execute(evaluated):
                self._child(version, digest, "eval-report", suite, "evaluated")
            for name, state, identity in connection.execute(deployed):
                label = f"{name} ({state})"
                self._child(version, f"deployment:{identity}", "deployment", label, "served as")

    def _child(self, version: Version, digest: str, kind: str, label: str, how: str) -> None:
        self.nodes.setdefault(digest, Node(digest, kind, label, known=True))
        self.edges.add((version.digest, digest, how))
