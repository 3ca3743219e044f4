"""Prometheus metrics, read when they are scraped.

The counters of usage come from the store, in a thread of their own: a scrape shows what the one before
it found out, and none waits for a long history.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import numpy as np
from fastapi import FastAPI
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from l2_aistation.core.amount import Amount
from l2_aistation.service import Service
from l2_aistation.service.metering import Metering, UsageTotals

log = logging.getLogger(__name__)
USAGE = ["tenant", "queue", "model"]


class PoolCollector(Collector):
    """Gauges over the running service; nothing while it does not run."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.usage: UsageTotals | None = None
        self.reader: threading.Thread | None = None

    def collect(self) -> Iterator[Metric]:
        """The families."""
        service: Service | None = self.app.state.service
        if service is None or not service.alive:
            return
        yield from self._pool(service)
        yield from self._queues(service)
        yield from self._usage(service)
        yield GaugeMetricFamily(
            "aistation_cycle_seconds", "CPU time of the last cycle", value=service.cycles.cpu_s
        )
        yield CounterMetricFamily(
            "aistation_cycle_failures", "Cycles that a policy's fault undid", value=service.cycles.failures
        )

    def _pool(self, service: Service) -> Iterator[Metric]:
        pool = service.platform.world.pool
        total, free = pool.totals(), pool.totals(pool.usable, free=True)
        accelerators = GaugeMetricFamily("aistation_accelerators", "Accelerators", labels=["kind"])
        accelerators.add_metric(["total"], total.accelerators)
        accelerators.add_metric(["free"], free.accelerators)
        yield accelerators
        models = GaugeMetricFamily(
            "aistation_model_accelerators", "Accelerators by model", labels=["model", "kind"]
        )
        for model in pool.models:
            bits = pool.bits_of(model)
            models.add_metric([model, "total"], int(np.bitwise_count(bits).sum()))
            models.add_metric(
                [model, "free"], int(np.bitwise_count((bits & pool.free_bits)[pool.usable]).sum())
            )
        yield models
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
        faults = CounterMetricFamily("aistation_faults", "Faults of jobs", labels=["category", "label"])
        for row in service.store.fault_counts():
            faults.add_metric([row["category"], row["label"]], row["faults"])
        yield faults

    def _queues(self, service: Service) -> Iterator[Metric]:
        world = service.platform.world
        queues = GaugeMetricFamily(
            "aistation_queue_accelerators",
            "Accelerators of a queue and those below it: used, borrowed, its guarantee and cap",
            labels=["queue", "kind"],
        )
        for queue in list(world.queues.values()):
            used = world.by_queue.get(queue.name, Amount()).accelerators
            queues.add_metric([queue.name, "used"], used)
            queues.add_metric([queue.name, "borrowed"], max(used - queue.guarantee_accelerators, 0))
            queues.add_metric([queue.name, "guarantee"], queue.guarantee_accelerators)
            if queue.cap_accelerators is not None:
                queues.add_metric([queue.name, "cap"], queue.cap_accelerators)
        yield queues

    def _usage(self, service: Service) -> Iterator[Metric]:
        if self.usage is None or self.usage.metering.store is not service.store:
            self.usage = UsageTotals(Metering(service.store, service.platform))
        totals = self.usage.totals
        held = CounterMetricFamily(
            "aistation_held_accelerator_seconds", "Accelerator-seconds held by jobs", labels=USAGE
        )
        idle = CounterMetricFamily(
            "aistation_idle_accelerator_seconds", "Of those, held while not all ranks ran", labels=USAGE
        )
        for key, (held_s, idle_s) in totals.items():
            held.add_metric(list(key), held_s)
            idle.add_metric(list(key), idle_s)
        yield held
        yield idle
        if self.reader is None or not self.reader.is_alive():
            self.reader = threading.Thread(target=self._read, args=(self.usage,), daemon=True)
            self.reader.start()

    def _read(self, usage: UsageTotals) -> None:
        try:
            usage.refresh()
        except Exception:
            log.exception("the counters of usage stay as they were")


def register(app: FastAPI) -> None:
    """Adds the collector to the application's own registry."""
    app.state.registry.register(PoolCollector(app))
