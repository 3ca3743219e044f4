"""From facts, drift and measurements to a `cluster-report/v1`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from l1_podsys._kit.documents import Producer, Reference, digest_of
from l1_podsys.core.facts import Facts
from l1_podsys.core.inventory import Host, Inventory
from l1_podsys.core.planning import HostPlan, Profile
from l1_podsys.core.tuning import advise
from l1_podsys.documents import (
    CheckResult,
    ClusterReport,
    ReportAccelerator,
    ReportNode,
    ServiceEndpoint,
    TopologyNode,
)

from .verdicts import Value, clock_result, judge, version_results


@dataclass
class Measured:
    """What was measured, by check; clocks as (offset, uncertainty) in seconds."""

    values: dict[str, list[Value]] = field(default_factory=dict)
    clocks: dict[str, tuple[float, float]] = field(default_factory=dict)
    endpoints: dict[str, tuple[str, str, str | None]] = field(default_factory=dict)
    """host: (name, url, problem or None) of its exporter"""
    unreachable: dict[str, str] = field(default_factory=dict)


def build_report(
    *,
    taken_at: datetime,
    version: str,
    inventory: Inventory,
    profile: Profile | None,
    facts: Mapping[str, Facts],
    drift: Mapping[str, HostPlan],
    measured: Measured,
) -> ClusterReport:
    """The report.  Hosts that gave no facts are named in a failed check and are no nodes of it."""
    hosts = [host for host in inventory.hosts if host.id in facts]
    checks = _reachability(inventory, facts, measured)
    for host in hosts:
        checks += _host_checks(host, facts[host.id], drift.get(host.id), profile, inventory)
    expect = profile.expect if profile else {}
    for name in sorted(measured.values):
        checks += judge(name, measured.values[name], expect)
    checks += [clock_result(host, *pair) for host, pair in sorted(measured.clocks.items())]
    checks += _endpoint_checks(measured)
    endpoints = [
        ServiceEndpoint(name=name, url=url)
        for _, (name, url, bad) in sorted(measured.endpoints.items())
        if not bad
    ]
    return ClusterReport(
        producer=Producer(name="l1-podsys", version=version),
        inputs=[inventory.source] if isinstance(inventory.source, Reference) else [],
        taken_at=taken_at,
        cluster=inventory.cluster,
        tenant=inventory.tenant,
        nodes=[_node(host, facts[host.id], drift.get(host.id), profile) for host in hosts],
        topology=topology(hosts),
        checks=checks,
        endpoints=endpoints,
        shared_path=inventory.shared_path,
    )


def topology(hosts: Iterable[Host]) -> TopologyNode:
    """The tree site > spine > leaf > rack > node; several sites hang under one root."""
    levels = ("site", "spine", "leaf", "rack")
    tree: dict[str, dict] = {}  # type: ignore[type-arg]
    for host in hosts:
        branch = tree
        for level in levels:
            branch = branch.setdefault(getattr(host.location, level), {})
        branch[host.id] = {}

    def build(depth: int, name: str, branch: dict) -> TopologyNode:  # type: ignore[type-arg]
        level = (*levels, "node")[depth]
        children = [build(depth + 1, key, branch[key]) for key in sorted(branch)]
        return TopologyNode(level=level, name=name, children=children)

    sites = [build(0, name, tree[name]) for name in sorted(tree)]
    return sites[0] if len(sites) == 1 else TopologyNode(level="root", name="root", children=sites)


def _node(host: Host, facts: Facts, drift: HostPlan | None, profile: Profile | None) -> ReportNode:
    numa = {device.address: device.numa for device in facts.pci}
    accelerators = [
        ReportAccelerator(
            index=index,
            vendor="nvidia",
            model=gpu.model,
            memory_bytes=gpu.memory_bytes,
            pcie=gpu.pci,
            numa=numa.get(gpu.pci),
        )
        for index, gpu in enumerate(facts.nvidia.gpus)
    ]
    return ReportNode(
        id=host.id,
        hostname=host.hostname,
        role=host.role,
        addresses={"management": host.address, **host.addresses},
        arch=facts.arch,
        cpu_cores=facts.cpu.cores,
        memory_bytes=facts.memory.total_bytes,
        os=facts.os.name,
        kernel=facts.kernel,
        versions=versions_of(facts),
        profile=profile.name if profile else None,
        profile_digest=digest_of(profile.model_dump(mode="json")) if profile else None,
        drift=[f"{c.role}: {c.resource.kind} {c.resource.name}" for c in drift.changes] if drift else [],
        accelerators=accelerators,
        numa_nodes=facts.cpu.numa_nodes,
    )


def versions_of(facts: Facts) -> dict[str, str]:
    """Components with their versions, as far as the probe tells."""
    found = {"kernel": facts.kernel, "python": facts.python, **facts.answers.packages}
    if facts.nvidia.driver:
        found["nvidia-driver"] = facts.nvidia.driver
    return dict(sorted(found.items()))


def _reachability(inventory: Inventory, facts: Mapping[str, Facts], measured: Measured) -> list[CheckResult]:
    return [
        CheckResult(
            name="reachable",
            node=host.id,
            value="yes" if host.id in facts else "no",
            expected="yes",
            verdict="pass" if host.id in facts else "fail",
            evidence=[measured.unreachable[host.id]] if host.id in measured.unreachable else [],
        )
        for host in inventory.hosts
    ]


def _host_checks(
    host: Host, facts: Facts, drift: HostPlan | None, profile: Profile | None, inventory: Inventory
) -> list[CheckResult]:
    def check(name: str, value: str, expected: str, good: bool, evidence: Sequence[str] = ()) -> CheckResult:
        verdict = "pass" if good else "fail"
        return CheckResult(
            name=name, node=host.id, value=value, expected=expected, verdict=verdict, evidence=list(evidence)
        )

    results = [check("hostname", facts.hostname, host.hostname, facts.hostname == host.hostname)]
    if drift is not None:
        rows = [f"{c.role}: {c.resource.kind} {c.resource.name}: {c.before}" for c in drift.changes]
        results.append(check("drift", f"{len(rows)} differences", "0 differences", not rows, rows[:20]))
    if host.accelerators is not None:
        have = len(facts.nvidia.gpus)
        same = have == host.accelerators
        results.append(check("accelerators", str(have), str(host.accelerators), same))
    if inventory.shared_path is not None:
        mount = facts.answers.mounts.get(inventory.shared_path)
        value = "absent" if mount is None else f"{mount.type} {'writable' if mount.writable else 'read-only'}"
        results.append(check("shared-path", value, "present and writable", bool(mount and mount.writable)))
    results += [
        CheckResult(
            name=advice.name,
            node=host.id,
            value=advice.value,
            expected=advice.expected,
            verdict=advice.verdict,
            evidence=[*advice.evidence, f"fix: {advice.fix}"],
        )
        for advice in advise(facts)
    ]
    return results + version_results(host.id, versions_of(facts), profile)


def _endpoint_checks(measured: Measured) -> list[CheckResult]:
    return [
        CheckResult(
            name="metrics",
            node=host,
            value=problem or "answers",
            expected=f"{url} answers",
            verdict="fail" if problem else "pass",
        )
        for host, (_, url, problem) in sorted(measured.endpoints.items())
    ]
