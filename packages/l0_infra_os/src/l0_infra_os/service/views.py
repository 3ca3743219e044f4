"""What is shown: rows for command line, REST and pages, the inventory document, metering, audit."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select

from l0_infra_os._kit.documents import Producer
from l0_infra_os._kit.problems import BadInput, NotFound
from l0_infra_os.core import metering
from l0_infra_os.core.lifecycle import IN_FLIGHT, LeaseState, NodeState
from l0_infra_os.documents import (
    Accelerator,
    Addresses,
    Disk,
    InventoryNode,
    Location,
    Nic,
    NodeInventory,
)
from l0_infra_os.store.repository import Transaction
from l0_infra_os.store.tables import Audit, Interval, Lease, Node, Tenant

from .orders import addresses_of
from .site import Site

Row = dict[str, Any]


def time_text(seconds: float | None) -> str | None:
    """Seconds since 1970 as RFC 3339, UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class NodeView:
    """A node in one line."""

    id: str
    state: str
    phase: str | None
    since: str | None
    power: str
    tenant: str | None
    lease: str | None
    role: str | None
    rack: str | None
    leaf: str | None
    flavor: str | None
    model: str
    serial: str
    bmc: str | None
    image: str | None
    problem: str | None
    version: int

    def as_row(self) -> Row:
        """For a table or JSON."""
        return asdict(self)


@dataclass(frozen=True)
class LeaseView:
    """A lease in one line, with the ids of its nodes."""

    id: str
    tenant: str
    state: str
    nodes: int
    spares: int
    members: tuple[str, ...]
    spare_nodes: tuple[str, ...]
    in_flight: tuple[str, ...]
    image: str | None
    problem: str | None
    created: str | None
    ended: str | None

    def as_row(self) -> Row:
        """For a table or JSON."""
        return asdict(self)


def nodes(site: Site, *, tenant: str | None = None, lease: str | None = None) -> list[NodeView]:
    """Nodes; a tenant sees those that it holds, without their BMCs."""
    with site.store.begin() as tx:
        tenants = _tenant_of_lease(tx)
        return [_node_view(row, tenants, tenant) for row in tx.nodes(tenant=tenant, lease=lease)]


def node(site: Site, node_id: str, *, tenant: str | None = None) -> Row:
    """One node with its ports and facts."""
    with site.store.begin() as tx:
        found = tx.node(node_id, tenant=tenant)
        row = _node_view(found, _tenant_of_lease(tx), tenant).as_row()
        row["facts"] = found.facts
        row["ports"] = [
            {
                "mac": port.mac,
                "name": port.name,
                "segment": port.kind,
                "link_gbps": port.link_gbps,
                "observed": port.observed,
                "observed_at": time_text(port.observed_at),
            }
            for port in found.ports
        ]
        return row


def _node_view(node: Node, tenants: dict[str, str], caller: str | None) -> NodeView:
    return NodeView(
        id=node.id,
        state=node.state,
        phase=node.phase or None,
        since=time_text(node.since),
        power=node.power,
        tenant=tenants.get(node.lease_id or ""),
        lease=node.lease_id,
        role=node.role if node.lease_id else None,
        rack=node.rack or None,
        leaf=node.leaf or None,
        flavor=node.flavor or None,
        model=node.model,
        serial=node.serial,
        bmc=node.bmc_address if caller is None else None,
        image=node.image_digest,
        problem=node.problem,
        version=node.version,
    )


def timeline(site: Site, node_id: str, *, tenant: str | None = None) -> list[Row]:
    """A node's states in order; a tenant sees the stretches that were its own."""
    with site.store.begin() as tx:
        tx.node(node_id, tenant=tenant)
        query = select(Interval).where(Interval.node == node_id).order_by(Interval.id)
        if tenant is not None:
            query = query.where(Interval.tenant == tenant)
        return [
            {
                "state": row.state,
                "event": row.event,
                "cause": row.cause,
                "tenant": row.tenant,
                "start": time_text(row.start),
                "end": time_text(row.end),
                "seconds": round((row.end or tx.now) - row.start, 3),
            }
            for row in tx.session.scalars(query)
        ]


def leases(site: Site, *, tenant: str | None = None, ended: bool = False) -> list[LeaseView]:
    """Leases, the newest last."""
    with site.store.begin() as tx:
        query = select(Lease).order_by(Lease.created)
        if tenant is not None:
            query = query.where(Lease.tenant == tenant)
        if not ended:
            query = query.where(Lease.state != LeaseState.ENDED)
        return [_lease_view(tx, row) for row in tx.session.scalars(query)]


def lease(site: Site, lease_id: str, *, tenant: str | None = None) -> LeaseView:
    """One lease."""
    with site.store.begin() as tx:
        return _lease_view(tx, tx.lease(lease_id, tenant=tenant))


def _lease_view(tx: Transaction, lease: Lease) -> LeaseView:
    held = tx.nodes(lease=lease.id)
    return LeaseView(
        id=lease.id,
        tenant=lease.tenant,
        state=lease.state,
        nodes=lease.nodes,
        spares=lease.spares,
        members=tuple(node.id for node in held if node.role == "member"),
        spare_nodes=tuple(node.id for node in held if node.role == "spare"),
        in_flight=tuple(node.id for node in held if NodeState(node.state) in IN_FLIGHT),
        image=lease.image_digest,
        problem=lease.problem,
        created=time_text(lease.created),
        ended=time_text(lease.ended),
    )


def tenants(site: Site, *, tenant: str | None = None) -> list[Row]:
    """Tenants with what they hold."""
    with site.store.begin() as tx:
        query = select(Tenant).order_by(Tenant.name)
        if tenant is not None:
            query = query.where(Tenant.name == tenant)
        return [
            {
                "name": row.name,
                "quota_nodes": row.quota_nodes,
                "held_nodes": tx.held(row.name),
                "segments": [f"{row.name}-compute", f"{row.name}-storage"],
                "created": time_text(row.created),
            }
            for row in tx.session.scalars(query)
        ]


def audit(site: Site, *, tenant: str | None = None, last: int = 100) -> list[Row]:
    """The newest rows of the audit log, the oldest of them first."""
    with site.store.begin() as tx:
        query = select(Audit).order_by(Audit.id.desc()).limit(last)
        if tenant is not None:
            query = query.where(Audit.tenant == tenant)
        rows = list(tx.session.scalars(query))[::-1]
        return [
            {
                "id": row.id,
                "at": time_text(row.at),
                "actor": row.actor,
                "verb": row.verb,
                "subject": row.subject,
                "tenant": row.tenant,
                "detail": row.detail,
            }
            for row in rows
        ]


def meter(
    site: Site, *, since: float = 0.0, until: float | None = None, tenant: str | None = None
) -> list[Row]:
    """Node-seconds by tenant and state."""
    for name, moment in (("since", since), ("until", until)):
        if moment is not None and not math.isfinite(moment):
            raise BadInput("is no moment", field=name, do="give seconds since 1970")
    with site.store.begin() as tx:
        end = tx.now if until is None else until
        rows = tx.session.scalars(
            select(Interval).where(Interval.start < end, (Interval.end.is_(None)) | (Interval.end > since))
        )
        intervals = [
            metering.Interval(row.node, NodeState(row.state), row.tenant, row.start, row.end) for row in rows
        ]
    return [
        {
            "tenant": row.tenant,
            "state": row.state.value,
            "node_seconds": round(row.node_seconds, 3),
            "node_hours": round(row.node_seconds / 3600, 4),
            "charged": row.charged,
        }
        for row in metering.usage(intervals, since, end)
        if tenant is None or row.tenant == tenant
    ]


def newest_change(site: Site) -> tuple[int, int]:
    """A mark that differs whenever a node or a lease has changed: for live pages."""
    from sqlalchemy import func

    with site.store.begin() as tx:
        versions = tx.session.scalar(select(func.sum(Node.version))) or 0
        return int(tx.session.scalar(select(func.max(Interval.id))) or 0), int(versions)


def inventory(site: Site, *, tenant: str | None = None, version: str) -> NodeInventory:
    """`node-inventory/v1` of a tenant, or of the whole site."""
    with site.store.begin() as tx:
        if tenant is not None:
            tx.tenant(tenant)
        found = tx.nodes(tenant=tenant)
        leases = {row.id: row for row in tx.session.scalars(select(Lease))}
        by_name = {row.name: row for row in tx.session.scalars(select(Tenant))}
        rows = [
            _inventory_node(site, node, leases.get(node.lease_id or ""), by_name)
            for node in found
            if node.facts.get("nics")
        ]
        if tenant is not None and not rows:
            raise NotFound(f"tenant {tenant} holds no nodes", do="lease and provision some first")
        return NodeInventory(
            producer=Producer(name="l0-infra-os", version=version),
            taken_at=datetime.fromtimestamp(tx.now, UTC),
            tenant=tenant,
            nodes=rows,
        )


def _inventory_node(site: Site, node: Node, lease: Lease | None, tenants: dict[str, Tenant]) -> InventoryNode:
    facts = node.facts
    tenant = tenants[lease.tenant] if lease else None
    addresses = {
        kind: row["address"].partition("/")[0] for kind, row in addresses_of(site, node, tenant).items()
    }
    return InventoryNode(
        id=node.id,
        hostname=node.id,
        serial=node.serial,
        bmc_ref=f"bmc:{node.id}",
        state=node.state,
        role=node.role if lease else "member",
        tenant=lease.tenant if lease else None,
        lease=lease.id if lease else None,
        image_digest=node.image_digest,
        arch=facts["arch"],
        cpu_cores=facts["cpu"]["cores"],
        cpu_model=facts["cpu"]["model"],
        memory_bytes=facts["memory_bytes"],
        accelerators=[Accelerator(**row) for row in facts["accelerators"]],
        nics=_nics(facts["nics"]),
        disks=[Disk(**row) for row in facts["disks"]],
        location=Location(site=site.settings.site, leaf=node.leaf or "unknown", rack=node.rack or "unknown"),
        addresses=Addresses(**addresses),
        ssh_user="root" if node.state == NodeState.ACTIVE else None,
    )


def _nics(rows: Iterable[Row]) -> list[Nic]:
    return [
        Nic(
            name=row["name"],
            mac=row["mac"].lower(),
            link_gbps=row["link_gbps"],
            fabric=row["fabric"],
            rail=row["rail"],
            segment=row["segment"],
        )
        for row in rows
    ]


def _tenant_of_lease(tx: Transaction) -> dict[str, str]:
    return {row.id: row.tenant for row in tx.session.execute(select(Lease.id, Lease.tenant))}
