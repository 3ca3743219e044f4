"""Prometheus metrics, computed when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from l1_podsys.service import Podsys


class ClusterMetrics(Collector):
    """Drift, failed runs and verdicts of each cluster."""

    def __init__(self, podsys: Podsys) -> None:
        self.podsys = podsys

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing up front: the clusters are read when metrics are asked for."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One gauge for each question."""
        hosts = GaugeMetricFamily("podsys_hosts", "Hosts of the inventory", labels=["cluster"])
        changes = GaugeMetricFamily(
            "podsys_plan_changes", "Differences in the newest plan", labels=["cluster"]
        )
        checks = GaugeMetricFamily(
            "podsys_checks", "Checks of the newest report", labels=["cluster", "verdict"]
        )
        for cluster in self.podsys.clusters():
            hosts.add_metric([cluster.name], len(cluster.inventory().hosts))
            plan, report = cluster.plan(), cluster.report()
            if plan is not None:
                changes.add_metric([cluster.name], plan.changes)
            counts: dict[str, int] = {}
            for check in report.checks if report else []:
                counts[check.verdict] = counts.get(check.verdict, 0) + 1
            for verdict, count in counts.items():
                checks.add_metric([cluster.name, verdict], count)
        yield from (hosts, changes, checks)
