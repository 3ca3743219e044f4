"""The fields of an inventory.  Unknown fields are refused: a slip in a name never passes silently."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from l1_podsys._kit.documents import Part, Reference

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$")]
"""Ids and host names: they become file names, SSH aliases and words of a command line."""

Address = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9:][A-Za-z0-9:._%-]{0,252}$")]
"""An IP address or a DNS name; never something that a program could take for an option."""

Mac = Annotated[
    str,
    BeforeValidator(lambda value: value.lower().replace("-", ":") if isinstance(value, str) else value),
    StringConstraints(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}([0-9a-f:]{0,42})$"),
]
"""A hardware address in lower case with colons (InfiniBand ones have 20 bytes)."""

ClusterName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]


class Ssh(Part):
    """How to log in.  `key` is the path of a private key on the controller."""

    user: Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_-]{0,31}$")] = "root"
    port: int = Field(default=22, ge=1, le=65535)
    key: str | None = None


class Location(Part):
    """Where a host stands: site, spine, leaf switch, rack."""

    site: Name = "site"
    spine: Name = "spine"
    leaf: Name = "leaf"
    rack: Name = "rack"


class Nic(Part):
    """One network port as the inventory expects it."""

    name: str
    mac: Mac
    link_gbps: float | None = Field(default=None, ge=0)
    fabric: str = "ethernet"
    rail: int | None = None
    segment: str | None = None


class Host(Part):
    """One host.  `address` is where SSH answers; `addresses` holds the other segments'."""

    id: Name
    hostname: Name
    address: Address
    addresses: dict[str, Address] = Field(default_factory=dict)
    serial: str | None = None
    role: Literal["member", "spare"] = "member"
    location: Location = Field(default_factory=Location)
    nics: list[Nic] = Field(default_factory=list)
    accelerators: int | None = Field(default=None, ge=0, description="how many are expected")
    python: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9/._-]+$")] = "python3"
    ssh: Ssh | None = None


class Inventory(Part):
    """A cluster's hosts and how they are reached."""

    cluster: ClusterName = "cluster"
    tenant: ClusterName | None = None
    profile: str | None = Field(default=None, description="path of a profile, or a shipped one's name")
    ssh: Ssh = Field(default_factory=Ssh)
    networks: dict[str, str] = Field(default_factory=dict, description="segment: network, as 10.0.0.0/24")
    shared_path: str | None = None
    hosts: list[Host] = Field(min_length=1)
    source: Reference | None = Field(default=None, description="the document this was imported from")

    def login(self, host: Host) -> Ssh:
        """How to log in to one host: its own settings, else the cluster's."""
        return host.ssh or self.ssh

    def host(self, host_id: str) -> Host:
        """The host with this id."""
        return next(host for host in self.hosts if host.id == host_id)
