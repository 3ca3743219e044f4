"""Answers to those who wait for a pass: threads one by one, an event loop with one wake for all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, NamedTuple


class LoopReply:
    """Somebody in an event loop who waits for an answer."""

    __slots__ = ("future", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()

    def done(self) -> bool:
        """Whether it was answered or given up."""
        return self.future.done()


class Answer(NamedTuple):
    """What an operation gave: a value, or an error."""

    reply: Future[Any] | LoopReply
    value: Any = None
    error: BaseException | None = None


def deliver(answers: Iterable[Answer]) -> None:
    """Hands every answer over; each event loop is woken once, however many wait in it."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Answer]]] = {}
    for answer in answers:
        if isinstance(answer.reply, LoopReply):
            by_loop.setdefault(answer.reply.loop, []).append((answer.reply.future, answer))
        else:
            _settle(answer.reply, answer)
    for loop, mine in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle_all, mine)


def _settle_all(pairs: list[tuple[asyncio.Future[Any], Answer]]) -> None:
    for future, answer in pairs:
        _settle(future, answer)


def _settle(future: Future[Any] | asyncio.Future[Any], answer: Answer) -> None:
    if future.done():
        return
    if answer.error is not None:
        future.set_exception(answer.error)
    else:
        future.set_result(answer.value)
