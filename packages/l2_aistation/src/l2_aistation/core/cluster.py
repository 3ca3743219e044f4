"""The cluster as facts: nodes, their accelerators, their places in the network, their health."""

from __future__ import annotations

from dataclasses import dataclass

OK = "ok"
"""The health of what has no known fault.  Anything else is avoided; what may not be used is no fact
of the pool (a failed accelerator) or is cordoned (a failed node)."""


@dataclass(frozen=True, slots=True)
class AcceleratorFacts:
    """One accelerator of a node.

    `nvlink` names the group of the node's accelerators that are linked directly, `rail` the network
    rail of its NIC.
    """

    index: int
    vendor: str
    model: str
    memory_bytes: int = 0
    numa: int | None = None
    nvlink: int | None = None
    rail: int | None = None
    health: str = OK


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node as the pool takes it in.  `engine` names the backend that starts tasks there.

    `weak_rails` are rails of the node whose link is degraded: they count where a gang leaves the node.
    """

    id: str
    cpu_cores: int
    memory_bytes: int = 0
    accelerators: tuple[AcceleratorFacts, ...] = ()
    leaf: str = "leaf"
    spine: str = "spine"
    rack: str = "rack"
    spare: bool = False
    address: str = "127.0.0.1"
    engine: str = "local"
    health: str = OK
    weak_rails: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """A cluster: its name, its nodes and the digest of the document it came from.

    `weak_leaves` are leaves whose links upwards are degraded: gangs that leave their leaf avoid them.
    """

    name: str
    nodes: tuple[NodeFacts, ...]
    digest: str | None = None
    tenant: str | None = None
    weak_leaves: tuple[str, ...] = ()
