"""What an operator does to single nodes: inspect, power, quarantine, repair, forget."""

from __future__ import annotations

import time
from collections.abc import Sequence

from l0_infra_os._kit.problems import BadInput, Conflict
from l0_infra_os.core.lifecycle import DELETABLE, HELD, NodeState
from l0_infra_os.ports import PowerAction, PowerState
from l0_infra_os.store.repository import Transaction
from l0_infra_os.store.tables import Node

from .leasing import deploy, replace_failed
from .site import Site

POWER_PATIENCE_S = 10.0
POWER_ACTIONS: tuple[PowerAction, ...] = ("on", "off", "cycle")


def inspect(site: Site, node_ids: Sequence[str] | None, *, actor: str) -> list[str]:
    """Starts the inspection of these nodes, or of all that never had one; their ids."""

    def start(tx: Transaction) -> list[str]:
        if node_ids is None:
            nodes = tx.nodes(states=[NodeState.ENROLLED])
        else:
            nodes = [tx.node(node_id) for node_id in dict.fromkeys(node_ids)]
        for node in nodes:
            tx.move(node, "inspect")
        if nodes:
            tx.audit(actor, "inspect", f"{len(nodes)} nodes", nodes=[node.id for node in nodes])
        return [node.id for node in nodes]

    started = site.store.run(start)
    site.wake.set()
    return started


def power(
    site: Site, node_id: str, action: PowerAction, *, tenant: str | None = None, actor: str
) -> PowerState:
    """Switches a node through its BMC and returns the power state that it reached within seconds.

    A tenant may switch the nodes that run for it; the reconciler alone switches one in flight.
    """
    if action not in POWER_ACTIONS:
        raise BadInput(f"{action!r} is not one of {', '.join(POWER_ACTIONS)}", field="action")
    with site.store.begin() as tx:
        node = tx.node(node_id, tenant=tenant)
        address, state = node.bmc_address, NodeState(node.state)
        if action != "off" and state is not NodeState.ACTIVE and (tenant or state is not NodeState.ENROLLED):
            raise Conflict(
                f"node {node_id} is {state}: only a node that runs for a tenant is switched on by hand",
                do="provision its lease",
            )
        if action == "off" and state not in (NodeState.ACTIVE, NodeState.ENROLLED, NodeState.QUARANTINED):
            raise Conflict(f"node {node_id} is {state}: it is being worked on or off already", do="wait")
        tx.audit(actor, f"power-{action}", node_id, tenant=tx.tenant_of(node))
    bmc = site.bmc(address)
    bmc.set_power(action)
    seen = bmc.power()
    deadline = time.monotonic() + min(POWER_PATIENCE_S, site.settings.power_timeout_s)
    while seen != ("off" if action == "off" else "on") and time.monotonic() < deadline:
        time.sleep(0.2)
        seen = bmc.power()

    def record(tx: Transaction) -> None:
        tx.node(node_id).power = seen

    site.store.run(record)
    return seen


def quarantine(site: Site, node_id: str, *, reason: str, actor: str) -> str | None:
    """Takes a faulty node out of service; another takes its place in its lease if one is free.

    Its ports are isolated first.  Returns the id of the node that replaces it.
    """
    if not reason.strip():
        raise BadInput("say why", field="reason")

    def condemn(tx: Transaction) -> str | None:
        node = tx.node(node_id)
        tx.audit(actor, "quarantine", node_id, tenant=tx.tenant_of(node), reason=reason)
        return condemn_node(tx, node, reason)

    replacement = site.store.run(condemn)
    site.wake.set()
    return replacement


def condemn_node(tx: Transaction, node: Node, reason: str) -> str | None:
    """One transaction's part of a failure: out of the lease, and a replacement in."""
    lease_id, role, image = node.lease_id, node.role, node.image_digest
    held = NodeState(node.state) in HELD
    started = held and node.state != NodeState.LEASED
    tx.move(node, "fail", cause=reason, leave=True)
    if lease_id is None or not held:
        return None
    replacement = replace_failed(tx, lease_id, node, role)
    lease = tx.lease(lease_id)
    if replacement is None:
        lease.problem = f"{node.id}: {reason}"
        if lease.state == "active":
            tx.move_lease(lease, "short")
    elif started and image:
        if lease.state in ("active", "degraded"):
            tx.move_lease(lease, "provision")
        deploy(tx, replacement, image)
    tx.session.flush()
    tx.settle(lease_id)
    return replacement.id if replacement else None


def repair(site: Site, node_id: str, *, actor: str) -> None:
    """Takes a quarantined node back: isolated, erased and available, or inspected anew."""

    def start(tx: Transaction) -> None:
        node = tx.node(node_id)
        if node.state != NodeState.QUARANTINED:
            raise Conflict(
                f"node {node_id} is {node.state}, not quarantined",
                do=f"take it out of service first: infra-os quarantine {node_id} --reason …",
            )
        tx.audit(actor, "repair", node_id)
        tx.move(node, "repair" if node.dirty else "retest")

    site.store.run(start)
    site.wake.set()


def forget(site: Site, node_id: str, *, actor: str) -> None:
    """Removes a node that holds nobody's data; its metering and audit rows stay."""

    def remove(tx: Transaction) -> str:
        node = tx.node(node_id)
        if NodeState(node.state) not in DELETABLE and (node.state != NodeState.QUARANTINED or node.dirty):
            raise Conflict(f"node {node_id} is {node.state}", do="release or repair it first")
        tx.audit(actor, "forget", node_id, serial=node.serial, bmc=node.bmc_address)
        tx.close_interval(node.id)
        tx.session.delete(node)
        return node.bmc_address

    site.credentials.forget(site.store.run(remove))
