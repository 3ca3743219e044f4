"""The pages of the pool, queues, usage and faults."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from l2_aistation._kit.web import language, link, render, translator
from l2_aistation.core.metering import DIMENSIONS, Dimension
from l2_aistation.service import nodes, views
from l2_aistation.service.metering import Metering
from l2_aistation.service.times import moment

from . import job_pages
from .common import Caller, Platform
from .live import live_of
from .metering import report_of

router = APIRouter(include_in_schema=False)
router.include_router(job_pages.router)
WORDS = (
    *("free", "busy", "spare", "cordoned", "down", "running", "starting", "resuming", "held", "stopping"),
    *("another tenant", "Queue", "of", "CPU", "accelerators held", "cordon", "uncordon"),
    "CPU in use, of nodes without accelerators",
)
"""Words that the map's script needs."""

SPANS_S = {"1h": 3600, "6h": 21_600, "1d": 86_400, "7d": 604_800}
"""How far back the curves of the queues' page go."""

POINTS = 120
CURVES_KEPT_S = 10.0


@router.get("/", response_class=HTMLResponse)
async def pool_page(request: Request, _who: Caller, service: Platform) -> HTMLResponse:
    """The pool map: an empty frame that the browser fills from `/live/pool`."""
    t = translator(request)
    words = {word: t(word) for word in WORDS}
    return render(request, "pool.html", cluster=service.platform.facts.name, words=words)


@router.post("/nodes/{node}/{verb}")
async def node_form(request: Request, node: str, verb: str, who: Caller, service: Platform) -> Response:
    """Cordon and uncordon."""
    if verb == "cordon":
        await service.acall(lambda platform: nodes.cordon(platform, who, node, "by hand"))
    elif verb == "uncordon":
        await service.acall(lambda platform: nodes.uncordon(platform, who, node))
    return RedirectResponse(link(request, "/"), status_code=303)


@router.get("/queues", response_class=HTMLResponse)
async def queues_page(request: Request, who: Caller, service: Platform) -> HTMLResponse:
    """Queues as a tree, and their shares over time."""
    t = translator(request)
    words = {word: t(word) for word in ("held", "guarantee", "cap", "pool", "Time")}
    return render(request, "queues.html", spans=SPANS_S, words=words, **await _queues(who, service))


@router.get("/fragments/queues", response_class=HTMLResponse)
async def queues_fragment(request: Request, who: Caller, service: Platform) -> HTMLResponse:
    """The tree alone; made once for all who look at it until something changes."""
    board = await live_of(request.app, service).recent()
    key = ("queues", who.scope(), language(request))
    if key not in board.cache:
        made = render(request, "queues_table.html", **await _queues(who, service))
        board.remembered(key, lambda: bytes(made.body))
    return HTMLResponse(board.remembered(key, bytes))


async def _queues(who: Caller, service: Platform) -> dict[str, Any]:
    rows, total = await service.acall(
        lambda platform: (views.queues_view(platform, who), platform.world.totals.accelerators)
    )
    return {"queues": tree(rows), "total": total}


def tree(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of queues in the order of a tree, each with its `depth`, what it and those below it use,
    and how much of that is more than its guarantee."""
    known = {row["name"] for row in rows}
    below: dict[str | None, list[dict[str, Any]]] = {}
    for row in rows:
        parent = row.get("parent")
        below.setdefault(parent if parent in known else None, []).append(row)
    found: list[dict[str, Any]] = []

    def walk(parent: str | None, depth: int) -> list[dict[str, Any]]:
        mine = []
        for row in below.get(parent, []):
            borrowed = max(row["used_accelerators"] - row["guarantee_accelerators"], 0)
            shown = {**row, "depth": depth, "borrowed": borrowed, "leaf": row["name"] not in below}
            found.append(shown)
            mine.append(shown)
            for child in walk(row["name"], depth + 1):
                shown["active"] += child["active"]
                shown["waiting"] += child["waiting"]
        return mine

    walk(None, 0)
    return found


@router.get("/live/shares", response_class=Response)
async def shares(
    request: Request,
    _who: Caller,
    service: Platform,
    span: Annotated[str, Query(max_length=4)] = "1h",
) -> Response:
    """The curves of the queues' page; worked out at most every ten seconds, for all who look."""
    live = live_of(request.app, service)
    seconds = SPANS_S.get(span, 3600)
    metering = Metering(service.store, service.platform)
    return Response(
        await live.kept(("shares", seconds), CURVES_KEPT_S, lambda: metering.shares(seconds, POINTS)),
        media_type="application/json",
    )


@router.get("/usage", response_class=HTMLResponse)
async def usage_page(
    request: Request,
    who: Caller,
    service: Platform,
    by: Dimension = "tenant",
    since: Annotated[str, Query(max_length=40)] = "1d",
    until: Annotated[str, Query(max_length=40)] = "",
) -> HTMLResponse:
    """Accelerator-hours by one dimension."""
    report = await asyncio.to_thread(report_of, who, service, by, since, until)
    return render(
        request,
        "usage.html",
        report=report.as_json(moment),
        by=by,
        since=since,
        until=until,
        dimensions=DIMENSIONS,
    )


@router.get("/faults", response_class=HTMLResponse)
def faults_page(request: Request, who: Caller, service: Platform) -> HTMLResponse:
    """The newest faults."""
    rows = service.store.recent_faults(who.scope())
    return render(request, "faults.html", faults=[{**row, "at": moment(row["at"])} for row in rows])
