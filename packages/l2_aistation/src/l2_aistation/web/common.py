"""What the routes share: the running service, bounded bodies."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Depends, Request

from l2_aistation._kit.problems import BadInput, Unavailable
from l2_aistation._kit.tokens import Principal
from l2_aistation._kit.web import caller, operator
from l2_aistation.service import Service


class TooLarge(BadInput):
    """The body is larger than this endpoint takes."""

    status = 413


async def who_calls(request: Request) -> Principal:
    """The caller.  As a coroutine it runs in the event loop, not in a thread for each request."""
    return caller(request)


async def which_operator(request: Request) -> Principal:
    """The caller, who must be an operator."""
    return operator(request)


Caller = Annotated[Principal, Depends(who_calls)]
Operator = Annotated[Principal, Depends(which_operator)]


async def service_of(request: Request) -> Service:
    """The running service; `Unavailable` before the start and after the end."""
    service: Service | None = request.app.state.service
    if service is None or not service.alive:
        raise Unavailable("the scheduler is not running", do="start `aistation serve`")
    return service


Platform = Annotated[Service, Depends(service_of)]


async def json_body(request: Request, limit_bytes: int, what: str) -> Any:
    """The JSON value of a body of at most `limit_bytes`; it is not read further than that."""
    length = request.headers.get("content-length", "0")
    return parsed(await bounded(request.stream(), length, limit_bytes, what), what)


async def bounded(pieces: AsyncIterator[bytes], length: str, limit_bytes: int, what: str) -> bytes:
    """A body of at most `limit_bytes`; one that says that it is larger is not read at all."""
    size = int(length) if length.isdecimal() else 0
    body: list[bytes] = []
    if size <= limit_bytes:
        size = 0
        async for piece in pieces:
            size += len(piece)
            if size > limit_bytes:
                break
            body.append(piece)
    if size > limit_bytes:
        raise TooLarge(
            f"the {what} is larger than {limit_bytes} bytes",
            field="body",
            do="send a smaller one; data belongs into the shared folder",
        )
    return b"".join(body)


def parsed(body: bytes, what: str) -> Any:
    """The JSON value of a body."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the {what} is not JSON: {error}", field="body") from error
