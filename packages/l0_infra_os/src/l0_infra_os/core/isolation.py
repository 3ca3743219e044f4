"""What isolation must hold: where every port has to be, and what was seen to differ.

A tenant's ports are on the tenant's segments only between `attaching` and `active`; at any other
time compute and storage ports are on no segment.  A port that was not seen counts as unknown, and
nothing goes on from unknown.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from l0_infra_os._kit.problems import BadInput, Conflict, Unavailable

from .lifecycle import CONNECTED, NodeState

FIRST_TENANT_NUMBER = 100
LAST_NUMBER = 4094
FIRST_HOST = 10
"""Nodes get host numbers from here on; those before are for gateways and services."""

SegmentKind = Literal["management", "compute", "storage"]


@dataclass(frozen=True)
class Segment:
    """A layer-2 network of one tenant.  `number` (1..4094) is unique in the site, as a VLAN is.

    Ports on one segment reach each other and nobody else.  The `management` segment is the
    site's: its ports reach the controller only, never one another.
    """

    name: str
    kind: SegmentKind
    number: int
    tenant: str | None = None


MANAGEMENT = Segment("management", "management", 1)


@dataclass(frozen=True)
class Port:
    """A network port of a node and the kind of segment that it is cabled for."""

    mac: str
    kind: SegmentKind


@dataclass(frozen=True)
class TenantSegments:
    """A tenant's own segments."""

    tenant: str
    number: int

    def of(self, kind: SegmentKind) -> Segment:
        """The tenant's segment of a kind; both have numbers of their own."""
        if kind == "management":
            return MANAGEMENT
        number = self.number * 2 + (0 if kind == "compute" else 1)
        return Segment(f"{self.tenant}-{kind}", kind, number, self.tenant)


def tenant_number(taken: Iterable[int]) -> int:
    """The lowest free number of a tenant; its segments are numbered 2n and 2n+1."""
    used = set(taken)
    for number in range(FIRST_TENANT_NUMBER // 2, LAST_NUMBER // 2):
        if number not in used:
            return number
    raise Conflict("no segment number is free", do="remove tenants that hold no nodes")


def desired(
    state: NodeState, ports: Iterable[Port], segments: TenantSegments | None
) -> dict[str, Segment | None]:
    """Where each port of a node in `state` has to be."""
    tenant = segments if state in CONNECTED else None
    wanted: dict[str, Segment | None] = {}
    for port in ports:
        if port.kind == "management":
            wanted[port.mac] = MANAGEMENT
        else:
            wanted[port.mac] = tenant.of(port.kind) if tenant else None
    return wanted


def violations(wanted: Mapping[str, Segment | None], seen: Mapping[str, str | None]) -> list[str]:
    """What differs between wanted and seen, a sentence for each port; empty when it holds."""
    rows = []
    for mac, segment in sorted(wanted.items()):
        name = segment.name if segment else None
        if mac not in seen:
            rows.append(f"port {mac} was not seen")
        elif seen[mac] != name:
            rows.append(f"port {mac} is on {seen[mac] or 'no segment'}, not on {name or 'no segment'}")
    return rows


def must_hold(wanted: Mapping[str, Segment | None], seen: Mapping[str, str | None]) -> None:
    """`Unavailable` (to be tried again) unless every port was seen where it has to be."""
    rows = violations(wanted, seen)
    if rows:
        raise Unavailable("the network is not as it must be", why="; ".join(rows))


@dataclass(frozen=True)
class AddressPlan:
    """Who gets which address: the n-th node has host number 10 + n in every network."""

    management: str
    compute: str
    storage: str
    tenant_prefix: int = 20

    def address(self, kind: SegmentKind, number: int, tenant: int | None = None) -> str:
        """`address/prefix` of node `number` (from 1); tenants have networks of their own."""
        network = self._network(kind, tenant)
        host = FIRST_HOST + number
        if host >= network.num_addresses - 1:
            raise Conflict(
                f"network {network} has no address for node {number}",
                do=f"configure a larger {kind} network",
            )
        return f"{network[host]}/{network.prefixlen}"

    def _network(self, kind: SegmentKind, tenant: int | None) -> ipaddress.IPv4Network:
        try:
            whole = ipaddress.IPv4Network(getattr(self, kind))
        except ValueError as error:
            raise BadInput(f"is not a network: {error}", field=f"{kind}_network") from error
        if kind == "management" or tenant is None:
            return whole
        size = 2 ** (32 - self.tenant_prefix)
        index = tenant - FIRST_TENANT_NUMBER // 2
        start = int(whole.network_address) + index * size
        if start + size - 1 > int(whole.broadcast_address):
            raise Conflict(f"network {whole} has no room for one more tenant")
        return ipaddress.IPv4Network((start, self.tenant_prefix))
