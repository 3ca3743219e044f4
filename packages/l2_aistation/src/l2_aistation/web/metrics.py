"""Prometheus metrics, read when they are scraped."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import FastAPI
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from l2_aistation.service import Service


class PoolCollector(Collector):
    """Gauges over the running service; nothing while it does not run."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families."""
        service: Service | None = self.app.state.service
        if service is None or not service.alive:
            return
        pool = service.platform.world.pool
        total, free = pool.totals(), pool.totals(pool.usable, free=True)
        accelerators = GaugeMetricFamily("aistation_accelerators", "Accelerators", labels=["kind"])
        accelerators.add_metric(["total"], total.accelerators)
        accelerators.add_metric(["free"], free.accelerators)
        yield accelerators
        nodes = GaugeMetricFamily("aistation_nodes", "Nodes by state", labels=["state"])
        nodes.add_metric(["up"], int(pool.up.sum()))
        nodes.add_metric(["down"], int((~pool.up).sum()))
        nodes.add_metric(["cordoned"], int(pool.cordoned.sum()))
        nodes.add_metric(["spare"], int(pool.spare.sum()))
        yield nodes
        jobs = GaugeMetricFamily("aistation_jobs", "Jobs by queue and state", labels=["queue", "state"])
        for row in service.store.counts(None):
            jobs.add_metric([row["queue"], row["state"]], row["jobs"])
        yield jobs
        yield GaugeMetricFamily(
            "aistation_cycle_seconds", "CPU time of the last cycle", value=service.cycles.cpu_s
        )


def register(app: FastAPI) -> None:
    """Adds the collector to the application's own registry."""
    app.state.registry.register(PoolCollector(app))
