"""`node-inventory/v1`: what the nodes of a tenant (or of the whole site) are and where they stand."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from pydantic import Field

from ._kit.documents import Digest, Document, Part


class Accelerator(Part):
    """One accelerator of a node; `numa` is the NUMA node it hangs on."""

    vendor: str
    model: str
    memory_bytes: int = Field(ge=0)
    pcie: str | None = None
    numa: int | None = None


class Nic(Part):
    """One network port; `fabric` is ethernet, infiniband or roce; `rail` counts from 0."""

    name: str
    mac: str
    link_gbps: float | None = Field(default=None, ge=0)
    fabric: str = "ethernet"
    rail: int | None = None
    segment: str | None = None


class Disk(Part):
    """One disk as the node reports it."""

    name: str
    size_bytes: int = Field(ge=0)
    kind: str = "disk"


class Location(Part):
    """Where the node stands: site, spine, leaf switch, rack."""

    site: str = "site"
    spine: str = "spine"
    leaf: str
    rack: str


class Addresses(Part):
    """The node's address in each segment, without prefix length."""

    management: str | None = None
    compute: str | None = None
    storage: str | None = None


class InventoryNode(Part):
    """One node.  `role` is `member` or `spare`; `bmc_ref` names the BMC, credentials stay in L0."""

    id: str
    hostname: str
    serial: str
    bmc_ref: str
    state: str
    role: str = "member"
    tenant: str | None = None
    lease: str | None = None
    image_digest: Digest | None = None
    arch: str
    cpu_cores: int = Field(ge=1)
    cpu_model: str = ""
    memory_bytes: int = Field(ge=0)
    accelerators: list[Accelerator] = Field(default_factory=list)
    nics: list[Nic] = Field(default_factory=list)
    disks: list[Disk] = Field(default_factory=list)
    location: Location
    addresses: Addresses = Field(default_factory=Addresses)
    ssh_user: str | None = None
    ssh_port: int = 22


class NodeInventory(Document):
    """The nodes that a tenant holds; the operator's inventory has all nodes and no tenant."""

    SCHEMA: ClassVar[str] = "ogai.node-inventory/v1"

    taken_at: datetime
    tenant: str | None = None
    nodes: list[InventoryNode]
