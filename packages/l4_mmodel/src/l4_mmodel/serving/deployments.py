"""Deployments: what is to be served, in which state it is, and how states follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, and_, insert, select, update

from l4_mmodel._kit.documents import Producer, Reference
from l4_mmodel._kit.problems import BadInput, Conflict, NotFound
from l4_mmodel.documents import Deployment as DeploymentDocument
from l4_mmodel.documents import Endpoint
from l4_mmodel.registry.manifests import MODEL_SCHEMA
from l4_mmodel.registry.names import check_name
from l4_mmodel.registry.versions import Version
from l4_mmodel.store import tables
from l4_mmodel.store.database import Store

TRANSITIONS: dict[tuple[str, str], str] = {
    ("requested", "start"): "starting",
    ("requested", "request"): "requested",
    ("starting", "ready"): "ready",
    ("starting", "fail"): "failed",
    ("ready", "lost"): "starting",
    ("ready", "start"): "starting",
    ("starting", "start"): "starting",
    ("failed", "start"): "starting",
    ("requested", "stop"): "stopped",
    ("starting", "stop"): "draining",
    ("ready", "stop"): "draining",
    ("failed", "stop"): "stopped",
    ("draining", "drained"): "stopped",
    ("draining", "start"): "stopped",
    ("stopped", "request"): "requested",
    ("failed", "request"): "requested",
    ("ready", "request"): "requested",
    ("starting", "request"): "requested",
    ("draining", "request"): "requested",
}
"""(state, event) → state.  `start` also comes when a gateway takes over what another one left."""

STATES = sorted({state for state, _ in TRANSITIONS} | set(TRANSITIONS.values()))
RUNNING = ("requested", "starting", "ready")
"""States of deployments that a gateway is to run; a failed one waits until it is asked for again."""


@dataclass(frozen=True)
class DeploymentRow:
    """A deployment as it is stored."""

    id: int
    tenant: str
    name: str
    version_id: int | None
    runtime: str
    upstream: dict[str, Any] | None
    state: str
    detail: str
    document: dict[str, Any]
    created_at: float
    changed_at: float

    def as_json(self) -> dict[str, Any]:
        """What may be shown."""
        shown = ("tenant", "name", "runtime", "state", "detail", "created_at", "changed_at")
        return {
            **{name: getattr(self, name) for name in shown},
            "model": self.document["model_name"],
            "version": self.document["model_version"],
            "url": self.document["endpoint"]["url"],
        }


class Deployments:
    """The store of deployments."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def request(
        self,
        version: Version,
        *,
        name: str,
        runtime: str,
        by: str,
        producer: Producer,
        url: str,
        reason: str = "",
        evaluation: Reference | None = None,
        upstream: dict[str, Any] | None = None,
    ) -> DeploymentRow:
        """Asks for a version to be served under a name; the same version again changes nothing."""
        check_name(name)
        now = self.store.clock()
        model = Reference(schema_=MODEL_SCHEMA, digest=version.digest)
        document = DeploymentDocument(
            producer=producer,
            inputs=[model, *([evaluation] if evaluation else [])],
            name=name, tenant=version.tenant, model=model,
            model_name=version.name, model_version=str(version.number), runtime=runtime,
            endpoint=Endpoint(url=url), state="requested", created_at=datetime.fromtimestamp(now, UTC),
            reason=reason, evaluation=evaluation,
        )  # fmt: skip
        values = {
            "version_id": version.id, "runtime": runtime, "upstream": upstream, "state": "requested",
            "detail": "", "document": document.as_json(), "changed_at": now,
        }  # fmt: skip
        table = tables.deployments
        where = and_(table.c.tenant == version.tenant, table.c.name == name)
        with self.store.change() as connection:
            row = connection.execute(select(table).where(where)).first()
            if row is None:
                values |= {"tenant": version.tenant, "name": name, "created_at": now}
                connection.execute(insert(table), values)
            elif row.state in RUNNING and row.version_id == version.id and row.runtime == runtime:
                return DeploymentRow(**row._mapping)
            else:
                values["state"] = TRANSITIONS[row.state, "request"]
                connection.execute(update(table).where(where).values(**values))
            self.store.audit(
                connection, tenant=version.tenant, by=by, action="deploy", target=name, version=version.ref
            )
            self.store.bump(connection)
        return self.get(version.tenant, name)

    def get(self, tenant: str | None, name: str) -> DeploymentRow:
        """One deployment; `NotFound` also for another tenant's."""
        for row in self.all(tenant):
            if row.name == name:
                return row
        raise NotFound(f"no deployment {name!r}", do="see `mmodel deployments`")

    def all(self, tenant: str | None, states: Sequence[str] | None = None) -> list[DeploymentRow]:
        """Deployments, the newest first."""
        table = tables.deployments
        query = select(table).order_by(table.c.id.desc())
        if tenant is not None:
            query = query.where(table.c.tenant == tenant)
        if states is not None:
            query = query.where(table.c.state.in_(states))
        with self.store.read() as connection:
            return [_row(row) for row in connection.execute(query)]

    def happen(self, row_id: int, event: str, *, detail: str = "", by: str = "gateway") -> DeploymentRow:
        """Applies an event; a `Conflict` when the state does not allow it."""
        table = tables.deployments
        with self.store.change() as connection:
            row = connection.execute(select(table).where(table.c.id == row_id).with_for_update()).one()
            state = TRANSITIONS.get((row.state, event))
            if state is None:
                raise Conflict(f"{row.name} is {row.state}: '{event}' cannot happen now")
            document = {**row.document, "state": state}
            values = {
                "state": state,
                "detail": detail,
                "document": document,
                "changed_at": self.store.clock(),
            }
            connection.execute(update(table).where(table.c.id == row_id).values(**values))
            if event in ("stop", "fail"):
                self.store.audit(
                    connection, tenant=row.tenant, by=by, action=f"deployment-{event}", target=row.name
                )
            self.store.bump(connection)
            return DeploymentRow(**{**row._mapping, **values})

    def at(self, row_id: int, url: str) -> None:
        """Writes down where the deployment answers."""
        table = tables.deployments
        with self.store.change() as connection:
            row = connection.execute(select(table).where(table.c.id == row_id)).one()
            document = {**row.document, "endpoint": {**row.document["endpoint"], "url": url}}
            connection.execute(update(table).where(table.c.id == row_id).values(document=document))


def runtime_for(version: Version, wanted: str | None) -> str:
    """The runtime that serves a version's format."""
    natural = "llamacpp" if version.format == "gguf" else "transformers"
    if wanted not in (None, natural):
        raise BadInput(
            f"{wanted} does not run {version.format}", field="runtime", do=f"use {natural}, or leave it out"
        )
    return natural


def _row(row: Row[Any]) -> DeploymentRow:
    return DeploymentRow(**row._mapping)
