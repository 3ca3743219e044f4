"""`create_app`: REST, pages, metrics, and (in its lifespan) the carrying on of nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import func, select

from l0_infra_os._kit.web import new_web_app
from l0_infra_os.core.lifecycle import NodeState
from l0_infra_os.service.site import Site, open_site
from l0_infra_os.settings import Settings
from l0_infra_os.store.tables import Node
from l0_infra_os.version import __version__

from .messages import MESSAGES
from .pages import pages
from .rest import rest
from .serving import Serving, Standby

NAVIGATION = (
    ("/", "Fleet"),
    ("/leases", "Leases"),
    ("/tenants", "Tenants"),
    ("/meter", "Metering"),
    ("/audit", "Audit"),
)


def create_app(settings: Settings | None = None, *, carry_on: bool = True, **parts: Any) -> FastAPI:
    """The web application of this layer.

    With `carry_on` it moves nodes in flight and serves network boot while it runs, unless another
    process of the site does.  `parts` replace ports of the site (`given_fabric`, `connector` …).
    """
    settings = settings or Settings.load()
    site = open_site(settings, **parts)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        standby = Standby(Serving(site)) if carry_on else None
        if standby is not None:
            standby.start()
        app.state.running = True
        try:
            yield
        finally:
            app.state.running = False
            if standby is not None:
                await run_in_threadpool(standby.stop)
            site.close()

    app = new_web_app(
        package="l0_infra_os",
        layer="infra-os",
        title="Data-centre OS",
        version=__version__,
        settings=settings,
        navigation=NAVIGATION,
        messages=MESSAGES,
        lifespan=lifespan,
    )
    app.state.site = site
    app.state.running = True
    app.state.registry.register(FleetCollector(site))
    app.include_router(rest)
    app.include_router(pages)
    return app


class FleetCollector(Collector):
    """Nodes by state, counted when Prometheus asks."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def collect(self) -> Iterator[GaugeMetricFamily]:
        gauge = GaugeMetricFamily("infra_os_nodes", "Nodes by state", labels=["state"])
        with self.site.store.begin() as tx:
            rows = tx.session.execute(select(Node.state, func.count()).group_by(Node.state)).all()
        counts = {state: count for state, count in rows}  # noqa: C416 (rows are no tuples to mypy)
        for state in NodeState:
            gauge.add_metric([state.value], counts.get(state.value, 0))
        yield gauge

    def describe(self) -> list[GaugeMetricFamily]:
        """Known without asking the database, so that registering costs nothing."""
        return [GaugeMetricFamily("infra_os_nodes", "Nodes by state", labels=["state"])]
