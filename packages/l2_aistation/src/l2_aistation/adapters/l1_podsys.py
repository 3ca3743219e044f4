"""The pool from L1's `cluster-report/v1`: the document, or the report object of an installed L1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from l2_aistation._kit.documents import digest_of, read_json, validated
from l2_aistation._kit.problems import BadInput
from l2_aistation.core.pool import MOST_ACCELERATORS, AcceleratorFacts, ClusterFacts, NodeFacts

SCHEMA = "ogai.cluster-report/v1"
UNKNOWN = "unknown"


class Reader(BaseModel):
    """The fields that this layer uses; others are left alone."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class AcceleratorRow(Reader):
    """An accelerator of a reported node."""

    index: int = Field(ge=0)
    vendor: str
    model: str
    memory_bytes: int = Field(default=0, ge=0)
    numa: int | None = None


class NodeRow(Reader):
    """A reported node."""

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$")
    hostname: str
    role: str = "member"
    addresses: dict[str, str] = Field(default_factory=dict)
    cpu_cores: int = Field(ge=1, le=1 << 20)
    memory_bytes: int = Field(ge=0, le=1 << 53)
    accelerators: list[AcceleratorRow] = Field(default_factory=list)


class TreeRow(Reader):
    """A vertex of the topology."""

    level: str
    name: str
    children: list[TreeRow] = Field(default_factory=list)


class ReportRow(Reader):
    """A cluster report, as far as a scheduler cares."""

    schema_: str = Field(alias="schema")
    cluster: str
    tenant: str | None = None
    nodes: list[NodeRow] = Field(min_length=1)
    topology: TreeRow


class ClusterReportSource:
    """A `ClusterSource` over a cluster report's JSON value."""

    def __init__(self, value: dict[str, Any], *, where: str = "cluster-report") -> None:
        self.value = value
        self.where = where

    @classmethod
    def read(cls, path: Path) -> ClusterReportSource:
        """The report in a file."""
        return cls(read_json(path), where=str(path))

    @classmethod
    def of(cls, report: Any) -> ClusterReportSource:
        """A report object of L1's api."""
        return cls(report.as_json())

    def cluster(self) -> ClusterFacts:
        """The facts; `BadInput` names the field at fault."""
        if not isinstance(self.value, dict) or self.value.get("schema") != SCHEMA:
            found = self.value.get("schema") if isinstance(self.value, dict) else type(self.value).__name__
            raise BadInput(
                f"is {found!r}, not {SCHEMA!r}", field="schema", do="import what `podsys verify --out` wrote"
            )
        report = validated(ReportRow, self.value, where=self.where)
        ids = [node.id for node in report.nodes]
        twice = {name for name in ids if ids.count(name) > 1} if len(set(ids)) < len(ids) else set()
        if twice:
            raise BadInput(f"two nodes are called {min(twice)!r}", field="nodes", do="make the ids differ")
        places = _places(report.topology)
        nodes = tuple(_facts(node, places) for node in report.nodes)
        return ClusterFacts(report.cluster, nodes, digest_of(self.value), report.tenant)


def _places(tree: TreeRow) -> dict[str, dict[str, str]]:
    """For each node of the tree, the names of the switches above it by level."""
    places: dict[str, dict[str, str]] = {}
    todo: list[tuple[TreeRow, dict[str, str]]] = [(tree, {})]
    while todo:
        vertex, above = todo.pop()
        if vertex.level == "node":
            if vertex.name in places:
                raise BadInput(f"node {vertex.name!r} is in the tree twice", field="topology")
            places[vertex.name] = above
            continue
        below = {**above, vertex.level: vertex.name}
        todo.extend((child, below) for child in vertex.children)
    return places


def _facts(node: NodeRow, places: dict[str, dict[str, str]]) -> NodeFacts:
    if len(node.accelerators) > MOST_ACCELERATORS:
        raise BadInput(f"{node.id} has more than {MOST_ACCELERATORS} accelerators", field="nodes")
    place = places.get(node.id) or places.get(node.hostname) or {}
    leaf = place.get("leaf", UNKNOWN)
    return NodeFacts(
        id=node.id,
        cpu_cores=node.cpu_cores,
        memory_bytes=node.memory_bytes,
        accelerators=tuple(
            AcceleratorFacts(item.index, item.vendor, item.model, item.memory_bytes, item.numa)
            for item in sorted(node.accelerators, key=lambda item: item.index)
        ),
        leaf=leaf,
        spine=place.get("spine", UNKNOWN),
        rack=place.get("rack", leaf),
        spare=node.role == "spare",
        address=_address(node),
        engine="agent",
    )


def _address(node: NodeRow) -> str:
    """The address that ranks reach each other at: compute first."""
    for segment in ("compute", "management"):
        if segment in node.addresses:
            return node.addresses[segment].partition("/")[0]
    return next(iter(node.addresses.values()), node.hostname).partition("/")[0]
