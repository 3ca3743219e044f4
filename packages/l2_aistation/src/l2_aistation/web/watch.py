"""Live events (SSE): a job's log entries and steps as they become durable.

The id of an event is `<log sequence>.<step id>`: a client that comes back with it in
`Last-Event-ID` misses nothing and sees nothing twice.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Header
from fastapi.responses import StreamingResponse

from l2_aistation._kit.problems import NotFound
from l2_aistation.core.states import FINAL
from l2_aistation.service import Service, arrays, times, views

from .common import Caller, Platform

router = APIRouter(prefix="/api/v1")
Position = tuple[int, int]
News = Callable[[Service, str, Position], tuple[list[str], Position, bool]]
QUIET_S = 15.0
CURSOR = re.compile(r"^([0-9]{1,18})\.([0-9]{1,18})$")
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


@router.get("/jobs/{job}/watch", response_class=StreamingResponse)
async def watch_job(
    job: str,
    who: Caller,
    service: Platform,
    last_event_id: Annotated[str | None, Header(max_length=40)] = None,
) -> StreamingResponse:
    """A job's events from its first (or after `Last-Event-ID`) until it is over; or those of an array."""
    try:
        await asyncio.to_thread(views.job_row, service, who, job)
        stream = _job_events(service, job, cursor(last_event_id), _news)
    except NotFound:
        await asyncio.to_thread(arrays.members, service, who, job)
        stream = _job_events(service, job, cursor(last_event_id), _news_of_array)
    return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)


@router.get("/watch", response_class=StreamingResponse)
async def watch_all(
    who: Caller,
    service: Platform,
    last_event_id: Annotated[str | None, Header(max_length=40)] = None,
) -> StreamingResponse:
    """The events of all jobs that the caller may see, from now on."""
    start = cursor(last_event_id)[0] if last_event_id else await asyncio.to_thread(service.store.last_seq)
    stream = _all_events(service, who.scope(), start)
    return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)


def cursor(text: str | None) -> tuple[int, int]:
    """The position in an event's id; the beginning where it is none."""
    found = CURSOR.match(text or "")
    return (int(found[1]), int(found[2])) if found else (0, 0)


def frame(position: tuple[int, int], kind: str, data: dict[str, Any]) -> str:
    """One event on the wire."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"id: {position[0]}.{position[1]}\nevent: {kind}\ndata: {text}\n\n"


async def _job_events(service: Service, job: str, position: Position, news: News) -> AsyncIterator[str]:
    watcher = service.watch()
    try:
        while service.alive:
            watcher[1].clear()
            frames, position, over = await asyncio.to_thread(news, service, job, position)
            for text in frames:
                yield text
            if over:
                yield frame(position, "end", {"job": job})
                return
            if not frames and not await _changed(watcher[1]):
                yield ": still here\n\n"
    finally:
        service.unwatch(watcher)


def _news_of_array(service: Service, array: str, position: Position) -> tuple[list[str], Position, bool]:
    """The log entries of an array's jobs after a position; steps are watched job by job."""
    rows = service.store.members(array, None)
    entries = service.store.log(jobs=[row["id"] for row in rows], after=position[0])
    frames = []
    for entry in entries:
        position = int(entry["seq"]), 0
        frames.append(frame(position, entry["kind"], _data(entry)))
    return frames, position, arrays.is_over(rows) and not entries


def _data(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "job": entry["job"],
        "attempt": entry["attempt"],
        "at": times.moment(entry["at"]),
        **entry["body"],
    }


def _news(service: Service, job: str, position: Position) -> tuple[list[str], Position, bool]:
    """What happened after a position: log entries and steps in the order of their times."""
    row = service.store.job(job, None)
    entries = service.store.log(job=job, after=position[0])
    steps = service.store.steps(job, after=position[1], limit=1000)
    frames = []
    # Each list keeps its own order, so that the position only grows even if the clock was set back.
    tagged = ([(item["at"], kind, item) for item in rows] for kind, rows in ((0, entries), (1, steps)))
    merged = list(heapq.merge(*tagged, key=lambda entry: entry[0]))
    log_seq, step_id = position
    for at, kind, item in merged:
        if kind == 0:
            log_seq = max(log_seq, int(item["seq"]))
            data = {"job": job, "attempt": item["attempt"], "at": times.moment(at), **item["body"]}
            frames.append(frame((log_seq, step_id), item["kind"], data))
        else:
            step_id = max(step_id, int(item["id"]))
            data = {
                "job": job,
                "attempt": item["attempt"],
                "at": times.moment(at),
                "step": item["step"],
                "loss": item["loss"],
            }
            frames.append(frame((log_seq, step_id), "step", data))
    over = row is None or (row["state"] in {str(state) for state in FINAL} and not merged)
    return frames, (log_seq, step_id), over


async def _all_events(service: Service, tenant: str | None, seq: int) -> AsyncIterator[str]:
    watcher = service.watch()
    try:
        while service.alive:
            watcher[1].clear()
            entries = await asyncio.to_thread(service.store.log, tenant=tenant, after=seq)
            for entry in entries:
                seq = int(entry["seq"])
                yield frame((seq, 0), entry["kind"], _data(entry))
            if not entries and not await _changed(watcher[1]):
                yield ": still here\n\n"
    finally:
        service.unwatch(watcher)


async def _changed(event: asyncio.Event) -> bool:
    try:
        await asyncio.wait_for(event.wait(), QUIET_S)
    except TimeoutError:
        return False
    return True
