"""Puts the web application together."""

from __future__ import annotations

from fastapi import FastAPI

from l1_podsys import __version__
from l1_podsys._kit.web import new_web_app
from l1_podsys.service import Podsys
from l1_podsys.settings import Settings

from .background import Background
from .messages import MESSAGES
from .metrics import ClusterMetrics
from .pages import pages
from .rest import rest


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application of podsys: REST under /api/v1, pages under /."""
    settings = settings or Settings.load()
    app = new_web_app(
        package="l1_podsys",
        layer="l1-podsys",
        title="Podsys",
        version=__version__,
        settings=settings,
        navigation=[
            ("/", "Clusters"),
            ("/runs", "Runs"),
            ("/diagnose", "Diagnose"),
            ("/stack", "Software stack"),
        ],
        messages=MESSAGES,
    )
    app.state.podsys = Podsys(settings)
    app.state.background = Background()
    app.state.shell.tokens.admin_token()
    app.state.registry.register(ClusterMetrics(app.state.podsys))
    app.include_router(rest)
    app.include_router(pages)
    return app
