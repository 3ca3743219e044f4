"""The few pieces of ASGI that the data path needs, without a framework."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

import orjson

from .openai import ApiError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

JSON = (b"content-type", b"application/json")
SSE: Headers = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
PATIENCE = 4
"""How many times the limit is read of a body that is too large, before its connection is given up."""

DONE = b"data: [DONE]\n\n"


class ClientGone(Exception):  # noqa: N818 (a fact, not an error of ours)
    """The client closed its connection."""


async def read_body(receive: Receive, limit: int) -> bytes:
    """The request's body, at most `limit` bytes."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size <= limit:
            parts.append(part)
        # A client reads our answer only once it has sent everything, so a little more is read and dropped.
        if size > limit and (size > PATIENCE * limit or not message.get("more_body")):
            raise ApiError(413, f"The request is larger than {limit} bytes.", code="request_too_large")
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def parse_json(raw: bytes) -> Any:
    """The body's JSON value."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ApiError(400, f"The request's body is not valid JSON: {error}.", code="invalid_json") from None


async def send_json(send: Send, value: Any, status: int = 200, headers: Headers | None = None) -> None:
    """Answers with JSON (`value` may be bytes that are JSON already)."""
    body = value if isinstance(value, bytes) else orjson.dumps(value)
    length = (b"content-length", str(len(body)).encode())
    start = {"type": "http.response.start", "status": status, "headers": [JSON, length, *(headers or ())]}
    await send(start)
    await send({"type": "http.response.body", "body": body})


async def send_error(send: Send, error: ApiError) -> None:
    """Answers in OpenAI's error form."""
    headers: Headers = []
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if error.retry_s:
        headers.append((b"retry-after", str(max(1, -int(-error.retry_s // 1))).encode()))
        headers.append((b"retry-after-ms", str(max(1, round(error.retry_s * 1000))).encode()))
    await send_json(send, error.as_json(), error.status, headers)


def event(value: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + orjson.dumps(value) + b"\n\n"


def error_event(error: ApiError) -> bytes:
    """An error inside a stream, as OpenAI's clients read it."""
    return event(error.as_json())


@contextlib.asynccontextmanager
async def cancelled_when_gone(receive: Receive) -> AsyncIterator[None]:
    """Cancels the block as soon as the client has closed its connection, with `ClientGone`."""
    task = asyncio.current_task()
    assert task is not None
    gone = False

    async def watch() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        task.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if gone:
            task.uncancel()
            raise ClientGone from None
        raise
    finally:
        watcher.cancel()


def header(scope: Scope, name: bytes) -> str:
    """A request header, or nothing."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value.decode("latin-1"))
    return ""
