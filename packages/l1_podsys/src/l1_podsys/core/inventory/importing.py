"""From a `node-inventory/v1` document (the layer below, or anyone's) to an inventory."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from l1_podsys._kit.documents import Reference, digest_of, validated
from l1_podsys._kit.problems import BadInput

from .lint import lint
from .model import Host, Inventory, Location, Nic, Ssh

SCHEMA = "ogai.node-inventory/v1"


class _Reader(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Node(_Reader):
    id: str
    hostname: str
    serial: str | None = None
    role: str = "member"
    nics: list[dict[str, Any]] = Field(default_factory=list)
    accelerators: list[dict[str, Any]] = Field(default_factory=list)
    location: dict[str, Any] = Field(default_factory=dict)
    addresses: dict[str, str | None] = Field(default_factory=dict)
    ssh_user: str | None = None
    ssh_port: int = 22


class _NodeInventory(_Reader):
    schema_: str = Field(alias="schema")
    tenant: str | None = None
    nodes: list[_Node]


def from_node_inventory(
    document: dict[str, Any],
    *,
    cluster: str | None = None,
    ssh_key: str | None = None,
    profile: str | None = None,
    shared_path: str | None = None,
    where: str = "node-inventory",
) -> Inventory:
    """The inventory of a node-inventory document, linted.  Its digest goes into `source`."""
    read = validated(_NodeInventory, document, where=where)
    if read.schema_ != SCHEMA:
        raise BadInput(f"is {read.schema_!r}, not {SCHEMA!r}", field="schema", do="export the node inventory")
    if not read.nodes:
        raise BadInput("has no nodes", field="nodes", do="lease and provision nodes first")
    user = next((node.ssh_user for node in read.nodes if node.ssh_user), "root")
    values = {
        "cluster": cluster or read.tenant or "cluster",
        "tenant": read.tenant,
        "profile": profile,
        "ssh": Ssh(user=user, key=ssh_key),
        "shared_path": shared_path,
        "hosts": [_host(node, index, user, ssh_key) for index, node in enumerate(read.nodes)],
        "source": Reference(schema_=SCHEMA, digest=digest_of(document)),
    }
    inventory = validated(Inventory, values, where=where)
    lint(inventory)
    return inventory


def _host(node: _Node, index: int, user: str, ssh_key: str | None) -> Host:
    addresses = {name: text for name, text in node.addresses.items() if text}
    address = addresses.pop("management", None)
    if address is None:
        raise BadInput(
            f"node {node.id} has no management address",
            field=f"nodes.{index}.addresses.management",
            why="it is where SSH answers",
            do="provision the node first",
        )
    own = Ssh(user=node.ssh_user or user, port=node.ssh_port, key=ssh_key)
    fields = set(Nic.model_fields)
    value = {
        "id": node.id,
        "hostname": node.hostname,
        "address": address,
        "addresses": addresses,
        "serial": node.serial,
        "role": "spare" if node.role == "spare" else "member",
        "location": Location(**{k: v for k, v in node.location.items() if k in Location.model_fields}),
        "nics": [{k: v for k, v in nic.items() if k in fields} for nic in node.nics],
        "accelerators": len(node.accelerators) or None,
        "ssh": None if own == Ssh(user=user, key=ssh_key) else own,
    }
    return validated(Host, value, where=f"nodes.{index}")
