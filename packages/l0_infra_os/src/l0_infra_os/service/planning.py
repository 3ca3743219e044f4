"""What a provisioning would do, node by node, without doing any of it."""

from __future__ import annotations

from typing import Any

from l0_infra_os.core.isolation import TenantSegments
from l0_infra_os.core.lifecycle import HELD, NodeState

from .orders import addresses_of
from .site import Site


def plan_provision(
    site: Site, lease_id: str, *, image: str, tenant: str | None = None
) -> list[dict[str, Any]]:
    """One row for each node of the lease: what is there, and the steps that would follow."""
    chosen = site.images.get(image)
    with site.store.begin() as tx:
        lease = tx.lease(lease_id, tenant=tenant)
        owner = tx.tenant(lease.tenant)
        segments = TenantSegments(owner.name, owner.number)
        rows = []
        for node in tx.nodes(lease=lease_id):
            if NodeState(node.state) not in HELD:
                continue
            addresses = addresses_of(site, node, owner)
            ports = {mac: segments.of(kind).name for kind, mac in _macs(addresses).items()}  # type: ignore[arg-type]
            rows.append(
                {
                    "node": node.id,
                    "role": node.role,
                    "state": node.state,
                    "leaf": node.leaf,
                    "image": f"{chosen.name} {chosen.digest}",
                    "ports": ports,
                    "addresses": {kind: row["address"] for kind, row in addresses.items()},
                    "steps": _steps(chosen.name, waiting=node.state == NodeState.LEASED),
                }
            )
        return rows


def _macs(addresses: dict[str, dict[str, str]]) -> dict[str, str]:
    return {kind: row["mac"] for kind, row in addresses.items()}


def _steps(image: str, *, waiting: bool) -> list[str]:
    if not waiting:
        return []
    return [
        "boot from the network once, override read back",
        f"write image {image}, checked by SHA-256",
        "power off",
        "connect the ports to the tenant's segments and see them there",
        "boot from the disk from now on, override read back",
        "wait for the check-in",
    ]
