"""A state folder with two tenants' clusters, as plan, apply and verify leave them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from l1_podsys._kit.documents import Producer
from l1_podsys.api import ClusterReport, Host, Inventory, Plan, Podsys, Settings, TopologyNode
from l1_podsys.core.planning import Change, HostPlan, Profile, make_plan
from l1_podsys.core.planning.resources import File
from l1_podsys.documents import CheckResult, ReportNode


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("OGAI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OGAI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OGAI_CONFIG", str(tmp_path / "ogai.toml"))
    return Settings.load()


@pytest.fixture
def podsys(settings: Settings) -> Podsys:
    return Podsys(settings)


def a_plan(name: str, tenant: str | None, tmp: Path) -> Plan:
    hosts = [Host(id=f"n{i}", hostname=f"n{i}", address=f"192.0.2.{i}") for i in (1, 2)]
    change = Change(
        role="os_settings", resource=File.of("/etc/x", "y\n"), before="absent", after="file", diff="+y"
    )
    plans = [
        HostPlan(id="n1", hostname="n1", changes=[change], notes=["a note"]),
        HostPlan(id="n2", hostname="n2", error="no route"),
    ]
    return make_plan(
        made_at=datetime(2026, 1, 1, tzinfo=UTC),
        inventory=Inventory(cluster=name, tenant=tenant, hosts=hosts),
        profile=Profile(name="p"),
        base=str(tmp),
        files={},
        hosts=plans,
    )


def a_report(name: str, tenant: str | None) -> ClusterReport:
    node = ReportNode(
        id="n1", hostname="n1", arch="x86_64", cpu_cores=2, memory_bytes=1, os="Debian", kernel="6.1"
    )
    leaf = TopologyNode(
        level="leaf",
        name="leaf1",
        children=[TopologyNode(level="rack", name="r1", children=[TopologyNode(level="node", name="n1")])],
    )
    return ClusterReport(
        producer=Producer(name="l1-podsys", version="0.1.0"),
        taken_at=datetime(2026, 1, 1, tzinfo=UTC),
        cluster=name,
        tenant=tenant,
        nodes=[node],
        topology=TopologyNode(
            level="site", name="lab", children=[TopologyNode(level="spine", name="s", children=[leaf])]
        ),
        checks=[CheckResult(name="cpu", node="n1", value=1.0, verdict="pass", evidence=["rounds 1 2 3"])],
    )


@pytest.fixture
def fill(podsys: Podsys, tmp_path: Path) -> Callable[[str, str | None], None]:
    """Leaves a cluster of a tenant with inventory, plan, an ended run and a report."""

    def make(name: str, tenant: str | None) -> None:
        cluster = podsys.state.cluster(name)
        plan = a_plan(name, tenant, tmp_path)
        cluster.save_inventory(plan.inventory)
        cluster.save_plan(plan)
        cluster.save_report(a_report(name, tenant))
        run = cluster.new_run(plan)
        run.append("begin")
        run.append("start", "n1", "os_settings")
        run.append("fail", "n1", "os_settings", "no space left on device")
        run.append("end", detail="failed")

    return make
