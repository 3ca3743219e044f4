"""The application: the shell, this layer's routes, and the scheduler's life."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread
from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from l2_aistation import __version__
from l2_aistation._kit.web import new_web_app
from l2_aistation.service import Service
from l2_aistation.settings import Settings

from . import live, metering, pages, policy, rest, sessions, watch, whatif
from .hot import HotSubmit
from .messages import MESSAGES
from .metrics import register
from .pace import TooMany, too_many

NAVIGATION = (
    ("/", "Pool"),
    ("/jobs", "Jobs"),
    ("/queues", "Queues"),
    ("/usage", "Usage"),
    ("/faults", "Faults"),
)


def create_app(
    settings: Settings | None = None, *, service: Callable[[Settings], Service] | None = None
) -> FastAPI:
    """The web application; its lifespan runs the scheduler.  Mounted, the host must run that lifespan."""
    settings = settings or Settings.load()
    make = service or Service

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        running = await anyio.to_thread.run_sync(make, settings)
        await anyio.to_thread.run_sync(running.start)
        app.state.service = running
        try:
            yield
        finally:
            await anyio.to_thread.run_sync(running.stop)

    app = new_web_app(
        package="l2_aistation",
        layer="l2_aistation",
        title="AIStation",
        version=__version__,
        settings=settings,
        navigation=NAVIGATION,
        messages=MESSAGES,
        lifespan=lifespan,
    )
    app.state.service = None
    app.state.what_if = whatif.Desk(settings.what_if_per_minute)
    app.add_exception_handler(TooMany, too_many)
    app.add_middleware(HotSubmit, state=app.state, tokens=app.state.shell.tokens)
    app.mount("/assets", StaticFiles(directory=Path(__file__).parent / "static"), name="assets")
    app.include_router(whatif.router)  # before the verbs of a job, which take any word
    app.include_router(sessions.router)
    app.include_router(rest.router)
    app.include_router(policy.router)
    app.include_router(watch.router)
    app.include_router(metering.router)
    app.include_router(live.router)
    app.include_router(pages.router)
    register(app)
    return app
