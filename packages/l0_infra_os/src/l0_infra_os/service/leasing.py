"""Tenants and leases: quota, allocation, provisioning, growing, shrinking, release."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence

from sqlalchemy import select

from l0_infra_os._kit.problems import BadInput, Conflict
from l0_infra_os._kit.tokens import NAME, SYSTEM_TENANT
from l0_infra_os.core.isolation import tenant_number
from l0_infra_os.core.lifecycle import HELD, LEASE_OPEN, LeaseState, NodeState
from l0_infra_os.core.tenancy import MOST_NODES, Candidate, allocate, check_flavor, check_quota, check_request
from l0_infra_os.store.repository import Transaction
from l0_infra_os.store.tables import Lease, Node, Tenant

from .site import Site

SSH_KEY = re.compile(
    r"^(ssh-(ed25519|rsa)|ecdsa-sha2-nistp(256|384|521)|sk-[a-z0-9@.-]+) [A-Za-z0-9+/=]+( .*)?$"
)


def create_tenant(site: Site, name: str, *, quota_nodes: int | None, actor: str) -> None:
    """Makes a tenant; doing it again with the same quota is no error, another quota is set."""
    if not NAME.match(name) or name == SYSTEM_TENANT:
        raise BadInput(f"{name!r} is not a name for a tenant", field="tenant", do="use a-z, 0-9 and '-'")
    if quota_nodes is not None and not 0 <= quota_nodes <= MOST_NODES:
        raise BadInput(f"must be 0 to {MOST_NODES}", field="quota_nodes")

    def make(tx: Transaction) -> None:
        tenant = tx.session.get(Tenant, name)
        if tenant is None:
            number = tenant_number(tx.session.scalars(select(Tenant.number)))
            tx.session.add(Tenant(name=name, number=number, quota_nodes=quota_nodes, created=tx.now))
        elif tenant.quota_nodes == quota_nodes:
            return
        else:
            tenant.quota_nodes = quota_nodes
        tx.audit(actor, "tenant", name, tenant=name, quota_nodes=quota_nodes)

    site.store.run(make)


def remove_tenant(site: Site, name: str, *, actor: str) -> None:
    """Removes a tenant that has no open lease; its number is free again."""

    def remove(tx: Transaction) -> None:
        tenant = tx.tenant(name, lock=True)
        leases = list(tx.session.scalars(select(Lease).where(Lease.tenant == name)))
        if rows := [lease.id for lease in leases if lease.state != LeaseState.ENDED]:
            raise Conflict(f"tenant {name} holds leases", why=", ".join(rows), do="release them first")
        for lease in leases:
            tx.session.delete(lease)
        tx.session.flush()
        tx.session.delete(tenant)
        tx.audit(actor, "tenant-remove", name, tenant=name)

    site.store.run(remove)


def lease(
    site: Site, tenant: str, *, nodes: int, spares: int = 0, flavor: str | None = None, actor: str
) -> str:
    """Sets nodes aside for a tenant, all or none, and returns the lease's id."""
    check_request(nodes, spares)
    lease_id = f"lease-{secrets.token_hex(4)}"

    def take(tx: Transaction) -> None:
        owner = tx.tenant(tenant, lock=True)
        check_flavor(flavor, tx.session.scalars(select(Node.flavor)))
        check_quota(tenant=tenant, quota=owner.quota_nodes, held=tx.held(tenant), asked=nodes + spares)
        choice = allocate(_candidates(tx, flavor), nodes=nodes, spares=spares)
        tx.session.add(
            Lease(
                id=lease_id,
                tenant=tenant,
                state=LeaseState.RESERVED,
                nodes=nodes,
                spares=spares,
                flavor=flavor,
                created=tx.now,
            )
        )
        tx.session.flush()
        _join(tx, lease_id, choice.members, "member")
        _join(tx, lease_id, choice.spares, "spare")
        detail = {"members": list(choice.members), "spares": list(choice.spares)}
        tx.audit(actor, "lease", lease_id, tenant=tenant, **detail)

    site.store.run(take)
    return lease_id


def grow(site: Site, lease_id: str, *, nodes: int, tenant: str | None = None, actor: str) -> list[str]:
    """Adds members to a lease, all or none, near those it has; they wait for `provision`."""
    check_request(nodes, 0)

    def take(tx: Transaction) -> list[str]:
        row = _open_lease(tx, lease_id, tenant)
        owner = tx.tenant(row.tenant, lock=True)
        check_quota(tenant=row.tenant, quota=owner.quota_nodes, held=tx.held(row.tenant), asked=nodes)
        choice = allocate(_candidates(tx, row.flavor), nodes=nodes, near=_leaves(tx, lease_id))
        row.nodes += nodes
        _join(tx, lease_id, choice.members, "member")
        tx.audit(actor, "grow", lease_id, tenant=row.tenant, members=list(choice.members))
        return list(choice.members)

    return site.store.run(take)


def shrink(
    site: Site, lease_id: str, node_ids: Sequence[str], *, tenant: str | None = None, actor: str
) -> None:
    """Gives nodes of a lease back: they are isolated and erased while the others go on."""

    def give(tx: Transaction) -> None:
        row = _open_lease(tx, lease_id, tenant)
        held = {node.id: node for node in tx.nodes(lease=lease_id) if NodeState(node.state) in HELD}
        if strangers := sorted(set(node_ids) - set(held)):
            raise BadInput(f"not nodes of {lease_id}: {', '.join(strangers)}", field="nodes")
        if not node_ids or len(set(node_ids)) >= len(held):
            raise BadInput("at least one node has to leave and one to stay", field="nodes", do="or release")
        for node_id in dict.fromkeys(node_ids):
            node = held[node_id]
            if node.role == "spare":
                row.spares = max(0, row.spares - 1)
            else:
                row.nodes = max(1, row.nodes - 1)
            tx.move(node, "release")
        tx.audit(actor, "shrink", lease_id, tenant=row.tenant, nodes=list(node_ids))

    site.store.run(give)
    site.wake.set()


def provision(
    site: Site,
    lease_id: str,
    *,
    image: str,
    ssh_keys: Sequence[str],
    tenant: str | None = None,
    actor: str,
) -> None:
    """Has the lease's waiting nodes imaged, connected and booted; the reconciler does the work.

    The image's bytes are checked before anything starts.  Nodes that run already are left alone;
    missing ones (of a degraded lease) are taken from those available.
    """
    keys = [key.strip() for key in ssh_keys if key.strip()]
    if not keys:
        raise BadInput(
            "no SSH public key", field="ssh_keys", why="nobody could log in", do="give --ssh-key FILE.pub"
        )
    if bad := [key for key in keys if not SSH_KEY.match(key)]:
        raise BadInput(f"{bad[0][:40]!r} is no SSH public key", field="ssh_keys", do="give the .pub file")
    chosen = site.images.get(image)
    with site.store.begin() as tx:
        _open_lease(tx, lease_id, tenant)
    site.images.verify(chosen.digest)

    def start(tx: Transaction) -> None:
        row = _open_lease(tx, lease_id, tenant)
        _refill(tx, row)
        row.image_digest, row.ssh_keys = chosen.digest, keys
        waiting = [node for node in tx.nodes(lease=lease_id) if node.state == NodeState.LEASED]
        if row.state != LeaseState.PROVISIONING:
            tx.move_lease(row, "provision")
        for node in waiting:
            deploy(tx, node, chosen.digest)
        tx.settle(lease_id)
        names = [node.id for node in waiting]
        tx.audit(actor, "provision", lease_id, tenant=row.tenant, image=chosen.digest, nodes=names)

    site.store.run(start)
    site.wake.set()


def deploy(tx: Transaction, node: Node, image_digest: str) -> None:
    """Starts one leased node on its way; from here on a tenant's data may be on it."""
    node.image_digest, node.dirty = image_digest, True
    tx.move(node, "provision")


def release(site: Site, lease_id: str, *, tenant: str | None = None, actor: str) -> None:
    """Gives a lease back: every node is isolated first, then erased, then available again."""

    def give(tx: Transaction) -> None:
        row = tx.lease(lease_id, tenant=tenant)
        if row.state in (LeaseState.RELEASING, LeaseState.ENDED):
            return
        tx.move_lease(row, "release")
        nodes = [node for node in tx.nodes(lease=lease_id) if NodeState(node.state) in HELD]
        for node in nodes:
            tx.move(node, "release")
        tx.settle(lease_id)
        tx.audit(actor, "release", lease_id, tenant=row.tenant, nodes=[node.id for node in nodes])

    site.store.run(give)
    site.wake.set()


def replace_failed(tx: Transaction, lease_id: str, failed: Node, role: str) -> Node | None:
    """Takes an available node into the place of one that has just left a lease, if there is one."""
    row = tx.lease(lease_id)
    if LeaseState(row.state) not in LEASE_OPEN:
        return None
    try:
        near = [failed.leaf, *_leaves(tx, lease_id)]
        choice = allocate(_candidates(tx, row.flavor), nodes=1, near=near)
    except Conflict:
        return None
    _join(tx, lease_id, choice.members, role)
    node = tx.node(choice.members[0])
    tx.audit("reconciler", "replace", failed.id, tenant=row.tenant, by=node.id)
    return node


def _open_lease(tx: Transaction, lease_id: str, tenant: str | None) -> Lease:
    row = tx.lease(lease_id, tenant=tenant)
    if LeaseState(row.state) not in LEASE_OPEN:
        raise Conflict(f"lease {lease_id} is {row.state}", do="make a new lease")
    return row


def _refill(tx: Transaction, row: Lease) -> None:
    """Takes nodes for those that a degraded lease has lost, all or none."""
    nodes = [node for node in tx.nodes(lease=row.id) if NodeState(node.state) in HELD]
    spares = sum(node.role == "spare" for node in nodes)
    missing = (max(0, row.nodes - (len(nodes) - spares)), max(0, row.spares - spares))
    if not sum(missing):
        return
    candidates, near = _candidates(tx, row.flavor), _leaves(tx, row.id)
    if missing[0]:
        choice = allocate(candidates, nodes=missing[0], spares=missing[1], near=near)
    else:
        choice = allocate(candidates, nodes=missing[1], near=near)
        _join(tx, row.id, choice.members, "spare")
        return
    _join(tx, row.id, choice.members, "member")
    _join(tx, row.id, choice.spares, "spare")


def _candidates(tx: Transaction, flavor: str | None) -> list[Candidate]:
    return [
        Candidate(node.id, node.leaf, node.rack, node.flavor)
        for node in tx.nodes(states=[NodeState.AVAILABLE])
        if flavor is None or node.flavor == flavor
    ]


def _join(tx: Transaction, lease_id: str, node_ids: Sequence[str], role: str) -> None:
    for node_id in node_ids:
        node = tx.node(node_id)
        node.lease_id, node.role = lease_id, role
        tx.move(node, "lease")


def _leaves(tx: Transaction, lease_id: str) -> list[str]:
    return [node.leaf for node in tx.nodes(lease=lease_id)]
