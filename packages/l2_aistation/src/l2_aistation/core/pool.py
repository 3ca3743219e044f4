"""The cluster as facts, and the pool as arrays that placement works on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AcceleratorFacts:
    """One accelerator of a node."""

    index: int
    vendor: str
    model: str
    memory_bytes: int = 0
    numa: int | None = None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node as the pool takes it in.  `engine` names the backend that starts tasks there."""

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


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """A cluster: its name, its nodes and the digest of the document it came from."""

    name: str
    nodes: tuple[NodeFacts, ...]
    digest: str | None = None
    tenant: str | None = None
