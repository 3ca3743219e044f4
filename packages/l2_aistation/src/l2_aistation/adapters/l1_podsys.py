"""The pool from L1's `cluster-report/v1`: the document, or the report object of an installed L1."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from l2_aistation._kit.documents import digest_of, read_json, validated
from l2_aistation._kit.problems import BadInput
from l2_aistation.core.pool import MOST_ACCELERATORS, OK, AcceleratorFacts, ClusterFacts, NodeFacts

SCHEMA = "ogai.cluster-report/v1"
UNKNOWN = "unknown"
DEGRADED = "degraded"

OF_THE_NODE = frozenset({"cpu", "memory", "disk-write", "disk-fsync", "accelerators"})
"""Checks whose failure makes a node slower than the others, or smaller than it should be."""


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
    nvlink: int | None = None
    rail: int | None = None
    health: str = OK


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


class CheckRow(Reader):
    """A measured check of a node, or of the way between two."""

    name: str
    node: str | None = None
    peer: str | None = None
    verdict: str


class ReportRow(Reader):
    """A cluster report, as far as a scheduler cares."""

    schema_: str = Field(alias="schema")
    cluster: str
    tenant: str | None = None
    nodes: list[NodeRow] = Field(min_length=1)
    topology: TreeRow
    checks: list[CheckRow] = Field(default_factory=list)


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
        nodes = [_facts(node, places) for node in report.nodes]
        health = _Health(report, {node.id: node.leaf for node in nodes})
        marked = tuple(
            replace(
                node,
                health=DEGRADED if node.id in health.nodes else OK,
                weak_rails=(0,) if node.id in health.links else (),
            )
            for node in nodes
        )
        weak = tuple(sorted(health.leaves))
        return ClusterFacts(report.cluster, marked, digest_of(self.value), report.tenant, weak)


class _Health:
    """What the report's failed checks say of nodes, of their links, and of leaves' links upwards.

    A network check fails for two ends at once: the end that fails in at least half of its checks is
    held to be the cause.  Between leaves the same goes for the leaves.
    """

    def __init__(self, report: ReportRow, leaf: dict[str, str]) -> None:
        name_of = {node.hostname: node.id for node in report.nodes} | {
            node.id: node.id for node in report.nodes
        }
        self.nodes = {
            name_of.get(check.node or "")
            for check in report.checks
            if check.verdict == "fail" and check.name in OF_THE_NODE
        }
        inside: list[tuple[str, str, bool]] = []
        between: list[tuple[str, str, bool]] = []
        for check in report.checks:
            one, other = name_of.get(check.node or ""), name_of.get(check.peer or "")
            if not check.name.startswith("network") or one is None or other is None:
                continue
            failed = check.verdict == "fail"
            if leaf[one] == leaf[other]:
                inside.append((one, other, failed))
            else:
                between.append((leaf[one], leaf[other], failed))
        self.links = _blamed(inside)
        self.leaves = _blamed(between)


def _blamed(ways: list[tuple[str, str, bool]]) -> set[str]:
    """The ends that fail in at least half of their ways, and most of all at the other end of each."""
    asked: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for one, other, bad in ways:
        asked.update((one, other))
        if bad:
            failed.update((one, other))
    share = {name: failed[name] / asked[name] for name in asked}
    worse = {max(pair, key=lambda name: (share[name], name)) for *pair, bad in ways if bad}
    even = {name for *pair, bad in ways if bad and share[pair[0]] == share[pair[1]] for name in pair}
    return {name for name in worse | even if share[name] >= 0.5}


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
            AcceleratorFacts(
                item.index,
                item.vendor,
                item.model,
                item.memory_bytes,
                item.numa,
                item.nvlink,
                item.rail,
                item.health,
            )
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
