"""The application: REST and pages by FastAPI, `/v1` by the gateway, runtimes by the supervisor."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import importlib.resources
import logging
from collections.abc import AsyncIterator
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Self

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from l4_mmodel import __version__
from l4_mmodel._kit.problems import Conflict, Problem
from l4_mmodel._kit.tokens import TokenStore
from l4_mmodel._kit.web import TOKEN_COOKIE, new_web_app
from l4_mmodel.service import Mmodel
from l4_mmodel.serving.asgi import Receive, Scope, Send, header
from l4_mmodel.serving.gateway.access import Access
from l4_mmodel.serving.gateway.app import Gateway
from l4_mmodel.serving.gateway.ledger import Ledger
from l4_mmodel.serving.supervisor import Supervisor
from l4_mmodel.settings import Settings

from . import hub, pages, rest_evaluation, rest_registry, rest_serving
from .messages import MESSAGES
from .runs import Runs

logger = logging.getLogger(__name__)

NAVIGATION = (
    ("/models", "Models"),
    ("/datasets", "Data sets"),
    ("/evaluations", "Evaluations"),
    ("/deployments", "Deployments"),
    ("/chat", "Chat"),
    ("/keys", "Keys"),
)


def create_app(settings: Settings | None = None, *, url: str = "") -> FastAPI:
    """The whole application; `url` is where it is reached, for `deployment/v1` documents."""
    settings = settings or Settings.load()
    mmodel = Mmodel(settings, by="web")

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for work in (gateway.access.run(), ledger.run(), _supervise(supervisor, gateway, settings)):
                stack.push_async_callback(_cancel, asyncio.create_task(work))
            yield
            await runs.close()
            mmodel.blobs.plain.close()

    app = new_web_app(
        package="l4_mmodel", layer="L4", title="MModel", version=__version__, settings=settings,
        navigation=NAVIGATION, messages=MESSAGES, lifespan=lifespan,
    )  # fmt: skip
    ledger = Ledger(mmodel.store, app.state.registry)
    supervisor = Supervisor(
        mmodel.deployed, mmodel.plan_row, settings.run_dir,
        start_timeout_s=settings.start_timeout_s, drain_s=settings.drain_s, released=mmodel.let_go,
    )  # fmt: skip
    supervisor.url = f"{url}/v1" if url else ""
    access = Access(mmodel.store, SignIn(app.state.shell.tokens, settings.tenant), mmodel.store.clock)
    gateway = Gateway(access, supervisor, ledger, body_limit=settings.body_limit_bytes)
    runs = Runs(settings)
    app.state.mmodel, app.state.gateway, app.state.ledger, app.state.runs = mmodel, gateway, ledger, runs
    for module in (rest_registry, rest_evaluation, rest_serving, hub, pages):
        app.include_router(module.router)
    app.mount("/v1", gateway)
    assets = Path(str(importlib.resources.files("l4_mmodel"))) / "web" / "static"
    app.mount("/assets", StaticFiles(directory=assets), name="assets")
    return app


class FastPath:
    """Sends `/v1` straight to the gateway, everything else to the application."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.gateway: Gateway = app.state.gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/v1/"):
            await self.gateway(scope, receive, send)
        else:
            await self.app(scope, receive, send)


class SignIn:
    """The tenant of a signed-in user of the pages, or of a bearer token that is not a key."""

    def __init__(self, tokens: TokenStore, operators_tenant: str) -> None:
        self.tokens = tokens
        self.operators_tenant = operators_tenant

    def __call__(self, scope: Scope) -> str | None:
        kind, _, token = header(scope, b"authorization").partition(" ")
        if kind.lower() != "bearer":
            token = self._cookie(scope)
        try:
            who = self.tokens.authenticate(token)
        except Problem:
            return None
        return self.operators_tenant if who.is_operator else who.tenant

    @staticmethod
    def _cookie(scope: Scope) -> str:
        origin = header(scope, b"origin")
        if scope["method"] != "GET" and origin.partition("://")[2] != header(scope, b"host"):
            return ""  # a page of another site may send our cookie, but not read our pages
        try:
            found = SimpleCookie(header(scope, b"cookie")).get(TOKEN_COOKIE)
        except CookieError:
            return ""
        return found.value if found else ""


async def _supervise(supervisor: Supervisor, gateway: Gateway, settings: Settings) -> None:
    """Runs the supervisor once no other process does so for the same state."""
    with ServingLock(settings) as lock:
        while not lock.take():
            gateway.elsewhere = lock.holder()
            await asyncio.sleep(1)
        gateway.elsewhere = ""
        lock.sign(supervisor.url)
        await supervisor.run()


class ServingLock:
    """One process a state folder runs models; the kernel drops the lock when it dies."""

    def __init__(self, settings: Settings) -> None:
        settings.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.stream = open(settings.state_dir / "serving.lock", "a+", encoding="utf-8")  # noqa: SIM115

    def take(self) -> bool:
        """Takes the lock if nobody holds it."""
        try:
            fcntl.flock(self.stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def holder(self) -> str:
        """The address that the holder has written."""
        self.stream.seek(0)
        return self.stream.read().strip() or "address unknown"

    def sign(self, url: str) -> None:
        """Writes down our address."""
        self.stream.truncate(0)
        self.stream.write(url)
        self.stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()


def must_be_alone(settings: Settings) -> None:
    """A `Conflict` when another process serves the same state."""
    with ServingLock(settings) as lock:
        if not lock.take():
            raise Conflict(
                f"another process serves this state already: {lock.holder()}",
                do="use it, stop it, or set OGAI_HOME to another folder",
            )


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    if not task.cancelled() and task.exception() is not None:
        logger.error("a background task had failed", exc_info=task.exception())
