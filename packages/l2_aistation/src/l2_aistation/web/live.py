"""What the pages follow: one snapshot, then what changed, at most once a second, for all watchers at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.responses import Response, StreamingResponse

from l2_aistation.service import Service
from l2_aistation.service.live import Board, collect

from .common import Caller, Platform
from .watch import HEADERS

router = APIRouter(prefix="/live", include_in_schema=False)
TICK_S = 1.0
QUIET_S = 15.0
MOST_SHARE = 0.02
"""Of one core's time that looking at the loop may take, however large the pool."""


class Live:
    """The board of a running service, kept up to date while anybody watches."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.board = Board(secrets.token_hex(4))
        self.watching = 0
        self.ticker: asyncio.Task[None] | None = None
        self.moved = asyncio.Event()
        self.looking = asyncio.Lock()
        self.looked_at = 0.0
        self.cost_s = 0.0
        self.kept_until: dict[Any, tuple[float, bytes]] = {}

    async def look(self) -> None:
        """Takes a fresh snapshot in; watchers are told if anything changed."""
        service, board = self.service, self.board
        async with self.looking:
            began = time.thread_time()
            seen, in_loop = await service.acall(lambda platform: _timed(platform, service.cycles.cpu_s))
            in_thread, moved = await asyncio.to_thread(_advance, board, seen)
            self.cost_s = in_loop + in_thread + time.thread_time() - began
            self.looked_at = time.monotonic()
        if moved:
            self.moved.set()
            self.moved = asyncio.Event()

    async def recent(self) -> Board:
        """The board, not older than a tick."""
        if time.monotonic() - self.looked_at > TICK_S:
            await self.look()
        return self.board

    async def kept(self, key: Any, seconds: float, make: Callable[[], Any]) -> bytes:
        """The JSON of what `make` gives, for all who ask within some seconds."""
        at, body = self.kept_until.get(key, (0.0, b""))
        if time.monotonic() > at:
            body = _json(await asyncio.to_thread(make))
            self.kept_until[key] = time.monotonic() + seconds, body
        return body

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """While inside, the board follows the service."""
        self.watching += 1
        if self.ticker is None:
            self.ticker = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            self.watching -= 1

    async def _follow(self) -> None:
        watcher = self.service.watch()
        try:
            while self.watching and self.service.alive:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(watcher[1].wait(), QUIET_S)
                watcher[1].clear()
                with contextlib.suppress(Exception):  # the loop is stopping or starts again: look later
                    await self.look()
                await asyncio.sleep(max(TICK_S, self.cost_s / MOST_SHARE))
        finally:
            self.service.unwatch(watcher)
            self.ticker = None


def _timed(platform: Any, cycle_s: float) -> tuple[Any, float]:
    began = time.thread_time()
    seen = collect(platform, cycle_s)
    return seen, time.thread_time() - began


def _advance(board: Board, seen: Any) -> tuple[float, bool]:
    began = time.thread_time()
    moved = board.advance(seen)
    return time.thread_time() - began, moved


def live_of(app: FastAPI, service: Service) -> Live:
    """The board of the application's running service."""
    live: Live | None = getattr(app.state, "live", None)
    if live is None or live.service is not service:
        live = app.state.live = Live(service)
    return live


@router.get("/pool")
async def pool(request: Request, who: Caller, service: Platform) -> Response:
    """The whole map: its layout and who holds what."""
    board = await live_of(request.app, service).recent()

    def both() -> bytes:
        return _json({"layout": board.layout(), "frame": board.frame(who.scope(), "")})

    body = await asyncio.to_thread(board.remembered, ("pool", who.scope()), both)
    return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})


@router.get("/events", response_class=StreamingResponse)
async def events(
    request: Request,
    who: Caller,
    service: Platform,
    topic: Literal["pool", "jobs"] = "jobs",
    since: Annotated[str, Query(max_length=40)] = "",
) -> StreamingResponse:
    """Ticks: for `pool` what changed on the map, for `jobs` only that something did, with the counts."""
    live = live_of(request.app, service)
    stream = _ticks(live, who.scope(), topic, since)
    return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)


async def _ticks(live: Live, scope: str | None, topic: str, since: str) -> AsyncIterator[bytes]:
    async with live.watched():
        board = await live.recent()
        yield b": hello\n\n"
        while live.service.alive:
            moved = live.moved
            position = f"{board.epoch}.{board.version}"
            if position != since:
                yield await asyncio.to_thread(_tick, board, scope, topic, since)
                since = position
            try:
                await asyncio.wait_for(moved.wait(), QUIET_S)
            except TimeoutError:
                yield b": still here\n\n"


def _tick(board: Board, scope: str | None, topic: str, since: str) -> bytes:
    def make() -> bytes:
        if topic == "pool":
            data = board.frame(scope, since)
        else:
            data = {"v": f"{board.epoch}.{board.version}", **board.sums(scope)}
        return b"event: " + topic.encode() + b"\ndata: " + _json(data) + b"\n\n"

    return board.remembered((topic, scope, since if topic == "pool" else ""), make)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
