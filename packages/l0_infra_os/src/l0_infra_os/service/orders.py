"""The in-band side: what a machine that boots is told to do, and what it reports.

A machine is not trusted: it gets an order only after its BMC has shown it off in the same state,
and its report counts only with the token of that order.  A report may be sent again.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from l0_infra_os._kit.problems import BadInput, Forbidden, Unavailable
from l0_infra_os.core.isolation import SegmentKind
from l0_infra_os.core.lifecycle import BOOT_ACTIONS, NodeState
from l0_infra_os.store.repository import Transaction
from l0_infra_os.store.tables import Node, Port, Tenant

from .site import Site
from .steps import DONE, STARTING, WAITING

REASONS = {"digest": "failed-digest", "image": "failed-image", "unsupported": "failed-unsup"}


class _Report(BaseModel):
    model_config = ConfigDict(extra="ignore")

    token: str


class Cpu(BaseModel):
    """Processors as the agent counts them."""

    model: str = ""
    cores: int = Field(ge=1)


class Lldp(BaseModel):
    """What the switch at the other end of a cable says of itself."""

    leaf: str = ""
    rack: str = ""
    port: str = ""


class FactsNic(BaseModel):
    """A network port as the agent sees it; `segment` is the network that it is cabled to."""

    name: str
    mac: str = Field(pattern=r"^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$")
    link_gbps: float | None = Field(default=None, ge=0)
    fabric: str = "ethernet"
    segment: SegmentKind
    rail: int | None = None
    lldp: Lldp | None = None


class FactsDisk(BaseModel):
    """A disk."""

    name: str
    size_bytes: int = Field(ge=0)
    kind: str = "disk"


class FactsAccelerator(BaseModel):
    """An accelerator."""

    vendor: str
    model: str
    memory_bytes: int = Field(default=0, ge=0)
    pcie: str | None = None
    numa: int | None = None


class Facts(_Report):
    """The report of an inspection."""

    arch: str = Field(min_length=1)
    cpu: Cpu
    memory_bytes: int = Field(ge=0)
    disks: list[FactsDisk] = Field(default_factory=list)
    nics: list[FactsNic] = Field(min_length=1)
    accelerators: list[FactsAccelerator] = Field(default_factory=list)


class Deployed(_Report):
    """The report of a written image: the digest that was computed over what came in."""

    sha256: str
    bytes: int = Field(ge=0)


class Erased(_Report):
    """The report of an erasure; `verified` when the agent has read back that nothing is left."""

    method: str
    bytes: int = Field(default=0, ge=0)
    verified: bool = False


class CheckIn(_Report):
    """The tenant's system is up."""

    hostname: str = ""
    addresses: dict[str, str] = Field(default_factory=dict)
    host_key: str = Field(default="", max_length=2000)


class Refusal(_Report):
    """The agent could not do what it was told."""

    reason: str = Field(max_length=64)
    detail: str = Field(default="", max_length=500)


def token(site: Site, node: Node) -> str:
    """The one-boot token: derived, so that the same question gets the same answer after a restart."""
    message = f"{node.uuid}:{node.order_number}".encode()
    return hmac.new(site.boot_key, message, hashlib.sha256).hexdigest()


def order(site: Site, mac: str) -> dict[str, Any]:
    """What the machine with this MAC has to do now; `Unavailable` while there is nothing to do."""
    with site.store.begin() as tx:
        node = tx.node_of_port(mac)
        state = NodeState(node.state)
        if state in (NodeState.BOOTING, NodeState.ACTIVE):
            return {"action": "local"}
        action = BOOT_ACTIONS.get(state)
        if action is None or node.phase not in (STARTING, WAITING):
            raise Unavailable(f"no order for {node.id} now", why=f"it is {state}", do="ask again in a second")
        answer: dict[str, Any] = {"action": action, "token": token(site, node), "hostname": node.id}
        answer["address"] = site.addresses.address("management", node.number)
        if action == "deploy":
            answer.update(_deploy_order(site, tx, node, mac))
        return answer


def _deploy_order(site: Site, tx: Transaction, node: Node, mac: str) -> dict[str, Any]:
    lease = tx.lease(node.lease_id or "")
    tenant = tx.tenant(lease.tenant)
    image = site.images.get(node.image_digest or "")
    base = (site.boot_url or "").removesuffix("/boot")
    return {
        "image": {
            "url": f"{base}/images/{image.digest}",
            "sha256": image.digest.removeprefix("sha256:"),
            "format": image.format,
            "size": image.size_bytes,
        },
        "ssh_keys": lease.ssh_keys,
        "addresses": addresses_of(site, node, tenant),
        "storage": tenant.name,
        "checkin_url": f"{base}/boot/{mac}/checkin",
    }


def addresses_of(site: Site, node: Node, tenant: Tenant | None) -> dict[str, dict[str, str]]:
    """The address of the node's first port in each kind of segment, with its MAC."""
    rows: dict[str, dict[str, str]] = {}
    for port in node.ports:
        kind: SegmentKind = port.kind  # type: ignore[assignment]
        if kind in rows or (kind != "management" and tenant is None):
            continue
        number = None if tenant is None else tenant.number
        rows[kind] = {"mac": port.mac, "address": site.addresses.address(kind, node.number, number)}
        if kind == "management":
            rows[kind]["gateway"] = site.fabric.management.controller
    return rows


def take_facts(site: Site, mac: str, facts: Facts) -> None:
    """An inspection's report."""

    def take(tx: Transaction) -> None:
        node = _reporting(site, tx, mac, facts.token, NodeState.INSPECTING)
        if node is None:
            return
        _set_facts(tx, node, facts)
        _done(node)

    _commit(site, take)


def take_deployed(site: Site, mac: str, report: Deployed) -> None:
    """A deployment's report; another digest than the image's is a failure, not a success."""

    def take(tx: Transaction) -> None:
        node = _reporting(site, tx, mac, report.token, NodeState.DEPLOYING)
        if node is None:
            return
        if f"sha256:{report.sha256.lower()}" != node.image_digest:
            node.problem = f"the agent wrote {report.sha256[:16]}…, not the image {node.image_digest}"
            node.phase, node.due = REASONS["digest"], 0.0
            return
        _done(node)

    _commit(site, take)


def take_erased(site: Site, mac: str, report: Erased) -> None:
    """An erasure's report: kept in the audit log as evidence."""

    def take(tx: Transaction) -> None:
        node = _reporting(site, tx, mac, report.token, NodeState.ERASING)
        if node is None:
            return
        evidence = report.model_dump(exclude={"token"})
        tx.audit("agent", "erased", node.id, tenant=tx.tenant_of(node), serial=node.serial, **evidence)
        if not report.verified:
            node.problem, node.phase, node.due = "the erasure was not verified by reading", "failed", 0.0
            return
        _done(node)

    _commit(site, take)


def take_check_in(site: Site, mac: str, report: CheckIn) -> None:
    """The tenant's system is up; it says so again at each of its boots."""

    def take(tx: Transaction) -> None:
        node = tx.node_of_port(mac)
        _must_match(site, node, report.token)
        if node.state == NodeState.BOOTING and node.phase in (STARTING, WAITING):
            node.host_key = report.host_key or None
            _done(node)
        elif node.state == NodeState.ACTIVE:
            node.power = "on"
        elif node.state != NodeState.BOOTING:
            raise Forbidden(f"node {node.id} is {node.state}: no system of a tenant may run on it")

    _commit(site, take)


def take_failure(site: Site, mac: str, report: Refusal) -> None:
    """The agent gave up."""

    def take(tx: Transaction) -> None:
        node = tx.node_of_port(mac)
        _must_match(site, node, report.token)
        if NodeState(node.state) in BOOT_ACTIONS and node.phase in (STARTING, WAITING):
            node.problem = f"{report.reason}: {report.detail}" if report.detail else report.reason
            node.phase, node.due = REASONS.get(report.reason, "failed"), 0.0

    _commit(site, take)


def _reporting(site: Site, tx: Transaction, mac: str, given: str, state: NodeState) -> Node | None:
    """The node, when this report is what it is waiting for; None when it was taken already."""
    node = tx.node_of_port(mac)
    _must_match(site, node, given)
    if node.state == state and node.phase in (STARTING, WAITING):
        return node
    return None


def _must_match(site: Site, node: Node, given: str) -> None:
    if not hmac.compare_digest(token(site, node), given):
        raise Forbidden("this token is not of the node's present order", do="boot again for a new order")


def _done(node: Node) -> None:
    node.phase, node.due, node.deadline = DONE, 0.0, None


def _commit(site: Site, work: Callable[[Transaction], None]) -> None:
    site.store.run(work)
    site.wake.set()


def _set_facts(tx: Transaction, node: Node, facts: Facts) -> None:
    known = {port.mac: port for port in node.ports}
    ports = []
    for position, nic in enumerate(facts.nics):
        mac = nic.mac.lower()
        other = tx.session.get(Port, mac)
        if other is not None and other.node_id != node.id:
            raise BadInput(f"MAC {mac} is node {other.node_id}'s", field="nics")
        port = known.get(mac) or Port(mac=mac)
        port.position, port.name, port.kind = position, nic.name, nic.segment
        port.fabric, port.link_gbps = nic.fabric, nic.link_gbps
        ports.append(port)
    if not any(port.kind == "management" for port in ports):
        raise BadInput("no port is cabled to the management segment", field="nics")
    node.ports = ports
    node.facts = facts.model_dump(exclude={"token"}, mode="json")
    leaf, rack = _place(facts)
    node.leaf, node.rack = leaf or node.leaf, rack or node.rack
    node.flavor = flavor_of(facts)


def _place(facts: Facts) -> tuple[str, str]:
    """Leaf and rack by LLDP: the compute network's word first."""
    rows = sorted((nic for nic in facts.nics if nic.lldp), key=lambda nic: nic.segment != "compute")
    leaf = next((nic.lldp.leaf for nic in rows if nic.lldp and nic.lldp.leaf), "")
    rack = next((nic.lldp.rack for nic in rows if nic.lldp and nic.lldp.rack), "")
    return leaf, rack


def flavor_of(facts: Facts) -> str:
    """What kind of node it is: `8c-32g`, `64c-512g-8x-a100`."""
    flavor = f"{facts.cpu.cores}c-{round(facts.memory_bytes / 2**30)}g"
    if facts.accelerators:
        model = facts.accelerators[0].model.lower().replace(" ", "-")
        flavor += f"-{len(facts.accelerators)}x-{model}"
    return flavor[:63]
