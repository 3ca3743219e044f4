"""`create_app`: the web application of this layer."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from l3_ylink import __version__
from l3_ylink._kit.web import new_web_app
from l3_ylink.service import Library
from l3_ylink.settings import Settings

from .messages import MESSAGES
from .pages import pages
from .rest import rest

NAVIGATION = (
    ("/", "Overview"),
    ("/data", "Data sets"),
    ("/recipes", "Recipes"),
    ("/training", "Training"),
    ("/plans", "Plans"),
)


def create_app(settings: Settings | None = None) -> FastAPI:
    """REST under `/api/v1` and pages; runs alone or mounted under a prefix."""
    settings = settings or Settings.load()
    app = new_web_app(
        package="l3_ylink",
        layer="ylink",
        title="Data and training",
        version=__version__,
        settings=settings,
        navigation=NAVIGATION,
        messages=MESSAGES,
    )
    app.state.library = Library(settings)
    app.mount("/assets", StaticFiles(directory=Path(__file__).parent / "static"), name="assets")
    app.include_router(rest)
    app.include_router(pages)
    return app
