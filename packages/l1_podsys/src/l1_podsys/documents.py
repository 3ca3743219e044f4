"""`cluster-report/v1`: what a cluster is, how far it differs from its profile, what was measured."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from pydantic import Field

from ._kit.documents import Digest, Document, Part


class ReportAccelerator(Part):
    """One accelerator of a node."""

    index: int = Field(ge=0)
    vendor: str
    model: str
    memory_bytes: int = Field(ge=0)
    numa: int | None = None
    pcie: str | None = None


class ReportNode(Part):
    """One host.  `role` is member or spare; `versions` maps a component to its version."""

    id: str
    hostname: str
    role: str = "member"
    addresses: dict[str, str] = Field(default_factory=dict)
    arch: str
    cpu_cores: int = Field(ge=1)
    memory_bytes: int = Field(ge=0)
    os: str
    kernel: str
    versions: dict[str, str] = Field(default_factory=dict)
    profile: str | None = None
    profile_digest: Digest | None = None
    drift: list[str] = Field(default_factory=list)
    accelerators: list[ReportAccelerator] = Field(default_factory=list)
    numa_nodes: int = Field(default=1, ge=1)


class TopologyNode(Part):
    """A vertex of the tree site > spine > leaf > rack > node; `level` names which."""

    level: str
    name: str
    children: list[TopologyNode] = Field(default_factory=list)


class CheckResult(Part):
    """One measured check.  `verdict` is pass, warn, fail or unknown ("could not tell")."""

    name: str
    node: str | None = None
    peer: str | None = None
    value: float | str | None = None
    unit: str = ""
    expected: str = ""
    verdict: str
    evidence: list[str] = Field(default_factory=list)


class ServiceEndpoint(Part):
    """A service that the profile set up, for example the scheduler or the metrics exporter."""

    name: str
    url: str


class ClusterReport(Document):
    """The hand-over of a cluster to whoever runs jobs on it."""

    SCHEMA: ClassVar[str] = "ogai.cluster-report/v1"

    taken_at: datetime
    cluster: str
    tenant: str | None = None
    nodes: list[ReportNode]
    topology: TopologyNode
    checks: list[CheckResult] = Field(default_factory=list)
    endpoints: list[ServiceEndpoint] = Field(default_factory=list)
    shared_path: str | None = Field(default=None, description="folder that all nodes share")
