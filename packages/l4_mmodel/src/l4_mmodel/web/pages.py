"""The pages, in English and Chinese."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse

from l4_mmodel._kit.web import Caller, link, render
from l4_mmodel.evaluation.comparing import differing
from l4_mmodel.evaluation.reports import leader_board
from l4_mmodel.registry.aliases import alias_history
from l4_mmodel.registry.lineage import lineage
from l4_mmodel.security.keys import Keys
from l4_mmodel.service import Mmodel
from l4_mmodel.serving.gateway.ledger import Ledger, totals

from .access import Listed, Mine
from .drawing import Drawing, draw, when
from .runs import Runs

router = APIRouter(include_in_schema=False)
SHOWN_ITEMS = 50
EVENT_S = 1.0


def _all(request: Request) -> Mmodel:
    mmodel: Mmodel = request.app.state.mmodel
    return mmodel


@router.get("/")
@router.get("/models")
def models_page(request: Request, tenant: Listed) -> HTMLResponse:
    """Every model."""
    return render(request, "models.html", models=_all(request).registry.models(tenant))


@router.get("/models/{name}")
def model_page(name: str, request: Request, mmodel: Mine) -> HTMLResponse:
    """A model's versions and the history of its aliases."""
    newest = mmodel.version(name)
    versions = mmodel.registry.all(mmodel.tenant, name)
    history = alias_history(mmodel.store, newest.id, newest.ref)
    return render(
        request, "model.html", name=name, versions=versions, history=history, when=when, tenant=mmodel.tenant
    )


@router.get("/versions/{ref}")
def version_page(ref: str, request: Request, mmodel: Mine) -> HTMLResponse:
    """A version: its files, lineage and reports."""
    version = mmodel.version(ref)
    picture: Drawing = draw(lineage(mmodel.store, version), version.digest)
    return render(
        request,
        "version.html",
        version=version,
        picture=picture,
        reports=mmodel.reports(version),
        when=when,
        tenant=mmodel.tenant,
    )


@router.post("/versions/{ref}/verify")
def verify(ref: str, request: Request, mmodel: Mine) -> RedirectResponse:
    """Checks the digests and comes back; a changed file is told on a page of its own."""
    version = mmodel.verify(ref)
    return _back(request, f"/versions/{version.ref}?tenant={mmodel.tenant}&verified=1")


@router.get("/datasets")
def datasets_page(request: Request, tenant: Listed) -> HTMLResponse:
    """Every data set."""
    return render(request, "datasets.html", datasets=_all(request).datasets.all(tenant), when=when)


@router.get("/evaluations")
def evaluations_page(request: Request, tenant: Listed) -> HTMLResponse:
    """The leader board, and evaluations under way."""
    board = leader_board(_all(request).reported.all(tenant))
    runs: Runs = request.app.state.runs
    return render(request, "evaluations.html", board=board, runs=runs.all(tenant), when=when)


@router.get("/evaluations/{digest}")
def evaluation_page(digest: str, request: Request, tenant: Listed) -> HTMLResponse:
    """A report: metrics, latency, stability, and item by item against its baseline."""
    mmodel = _all(request)
    report = mmodel.reported.get(digest, tenant)
    baseline = None
    if report.comparisons:
        baseline = mmodel.reported.get(report.comparisons[0].baseline.digest, tenant)
    pairs = differing(report, baseline)[:SHOWN_ITEMS] if baseline else []
    return render(
        request,
        "evaluation.html",
        report=report,
        digest=digest,
        baseline=baseline,
        pairs=pairs,
        items=report.items[:SHOWN_ITEMS],
    )


@router.get("/deployments")
def deployments_page(request: Request, mmodel: Mine, tenant: Listed) -> HTMLResponse:
    """Deployments and a form to make one."""
    rows = mmodel.deployed.all(tenant)
    versions = mmodel.registry.all(mmodel.tenant, limit=200)
    return render(request, "deployments.html", deployments=rows, versions=versions, when=when)


@router.get("/fragments/deployments")
def deployments_fragment(request: Request, tenant: Listed) -> HTMLResponse:
    """The table alone."""
    rows = _all(request).deployed.all(tenant)
    return render(request, "deployments_table.html", deployments=rows, when=when)


@router.post("/deployments")
def deploy(request: Request, mmodel: Mine, version: Annotated[str, Form()]) -> RedirectResponse:
    """Asks for a deployment."""
    mmodel.deploy(version, reason="from the page")
    return _back(request, "/deployments")


@router.post("/deployments/{name}/stop")
def stop(name: str, request: Request, mmodel: Mine) -> RedirectResponse:
    """Ends a deployment."""
    mmodel.stop(name)
    return _back(request, "/deployments")


@router.get("/deployments/{name}")
def deployment_page(name: str, request: Request, mmodel: Mine) -> HTMLResponse:
    """A deployment with its live latency."""
    row = mmodel.deployed.get(mmodel.tenant, name)
    return render(request, "deployment.html", row=row, when=when, document=json.dumps(row.document, indent=1))


@router.get("/deployments/{name}/events")
async def deployment_events(name: str, request: Request, mmodel: Mine) -> StreamingResponse:
    """Server-sent events: the requests of the last minutes, each time there is a new one."""
    await asyncio.to_thread(mmodel.deployment, name)
    ledger: Ledger = request.app.state.ledger

    async def stream() -> AsyncIterator[str]:
        seen = -1.0
        while True:
            rows = ledger.chart(mmodel.tenant, name)
            newest = rows[-1]["at"] if rows else 0.0
            if newest != seen:
                seen = float(newest or 0)
                yield f"event: latency\ndata: {json.dumps(rows)}\n\n"
            await asyncio.sleep(EVENT_S)

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"cache-control": "no-cache"})


@router.get("/chat")
def chat_page(request: Request, mmodel: Mine) -> HTMLResponse:
    """Two deployments side by side."""
    ready = mmodel.deployed.all(mmodel.tenant, ["ready"])
    return render(request, "chat.html", names=[row.name for row in ready])


@router.get("/keys")
def keys_page(request: Request, mmodel: Mine, tenant: Listed, _who: Caller) -> HTMLResponse:
    """Keys, what they took, and a form to make one."""
    keys = Keys(mmodel.store, tenant, "").all()
    return render(
        request,
        "keys.html",
        keys=keys,
        made=None,
        usage=totals(mmodel.store, tenant),
        when=when,
        now=mmodel.store.clock(),
    )


@router.post("/keys")
def create_key(
    request: Request,
    mmodel: Mine,
    tenant: Listed,
    name: Annotated[str, Form()],
    requests_per_minute: Annotated[str, Form()] = "",
    tokens_per_minute: Annotated[str, Form()] = "",
) -> HTMLResponse:
    """Makes a key and shows it, once."""
    made = mmodel.keys.create(
        name,
        requests_per_minute=_limit(requests_per_minute),
        tokens_per_minute=_limit(tokens_per_minute),
    )
    keys = Keys(mmodel.store, tenant, "").all()
    usage = totals(mmodel.store, tenant)
    return render(
        request, "keys.html", keys=keys, made=made.secret, usage=usage, when=when, now=mmodel.store.clock()
    )


@router.post("/keys/{name}/revoke")
def revoke_key(name: str, request: Request, mmodel: Mine) -> RedirectResponse:
    """Ends a key."""
    mmodel.keys.revoke(name)
    return _back(request, "/keys")


def _limit(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None


def _back(request: Request, path: str) -> RedirectResponse:
    return RedirectResponse(link(request, path), status_code=303)
