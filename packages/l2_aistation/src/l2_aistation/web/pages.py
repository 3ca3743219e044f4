"""The pages: pool map, jobs, one job, queues, faults."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import yaml
from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from l2_aistation._kit.problems import BadInput
from l2_aistation._kit.web import link, render, translator
from l2_aistation.core.states import JobState
from l2_aistation.service import jobs, nodes, views

from .common import Caller, Platform

router = APIRouter(include_in_schema=False)
BADGES = {
    "queued": "idle",
    "suspended": "idle",
    "starting": "info",
    "running": "ok",
    "held": "warn",
    "resuming": "info",
    "stopping": "warn",
    "completed": "ok",
    "failed": "bad",
    "cancelled": "idle",
    "busy": "info",
    "free": "ok",
    "spare": "info",
    "down": "bad",
    "cordoned": "warn",
}
WORDS = (
    *("free", "busy", "spare", "cordoned", "down", "running", "starting", "resuming", "held", "stopping"),
    *("another tenant", "Queue", "of", "CPU", "accelerators held", "cordon", "uncordon"),
)
"""Words that the map's script needs."""

VERBS = {
    JobState.QUEUED: ("suspend", "cancel"),
    JobState.SUSPENDED: ("release", "cancel"),
    JobState.STARTING: ("suspend", "requeue", "cancel"),
    JobState.RUNNING: ("suspend", "requeue", "cancel"),
    JobState.HELD: ("suspend", "requeue", "cancel"),
    JobState.RESUMING: ("suspend", "requeue", "cancel"),
    JobState.STOPPING: ("cancel",),
}


def page(request: Request, template: str, **context: Any) -> HTMLResponse:
    """A page with the words for states."""
    return render(request, template, badges=BADGES, **context)


@router.get("/", response_class=HTMLResponse)
async def pool_page(request: Request, who: Caller, service: Platform) -> HTMLResponse:
    """The pool map: an empty frame that the browser fills from `/live/pool`."""
    t = translator(request)
    return page(
        request, "pool.html", cluster=service.platform.facts.name, words={word: t(word) for word in WORDS}
    )


@router.get("/jobs", response_class=HTMLResponse)
def jobs_page(
    request: Request, who: Caller, service: Platform, state: Annotated[str, Query(max_length=16)] = ""
) -> HTMLResponse:
    """The list of jobs."""
    return page(request, "jobs.html", **_jobs(who, service, state))


@router.get("/fragments/jobs", response_class=HTMLResponse)
def jobs_fragment(
    request: Request, who: Caller, service: Platform, state: Annotated[str, Query(max_length=16)] = ""
) -> HTMLResponse:
    """The part of the list that changes."""
    return page(request, "jobs_table.html", **_jobs(who, service, state))


def _jobs(who: Caller, service: Platform, state: str) -> dict[str, Any]:
    rows = service.store.jobs(who.scope(), states=[state] if state else [], limit=200)
    counts: dict[str, int] = {}
    for row in service.store.counts(who.scope()):
        counts[row["state"]] = counts.get(row["state"], 0) + row["jobs"]
    states = [str(item) for item in JobState]
    return {"jobs": [views.job_view(row) for row in rows], "counts": counts, "state": state, "states": states}


@router.post("/jobs")
async def submit_form(
    request: Request, who: Caller, service: Platform, spec: Annotated[str, Form(max_length=1_000_000)]
) -> Response:
    """The submit form: a job-spec as YAML or JSON."""
    try:
        value = yaml.safe_load(spec)
    except yaml.YAMLError as error:
        raise BadInput(f"is neither YAML nor JSON: {error}", field="spec") from error
    checked = jobs.check_spec(value)
    name = await service.acall(lambda platform: jobs.submit(platform, who, checked))
    return RedirectResponse(link(request, f"/jobs/{name}"), status_code=303)


@router.get("/jobs/{job}", response_class=HTMLResponse)
async def job_page(request: Request, job: str, who: Caller, service: Platform) -> HTMLResponse:
    """One job: why it waits, its time line, loss curve, attempts and faults."""
    return page(request, "job.html", **await _job(request, job, who, service))


@router.get("/fragments/jobs/{job}", response_class=HTMLResponse)
async def job_fragment(request: Request, job: str, who: Caller, service: Platform) -> HTMLResponse:
    """The part of a job's page that changes."""
    return page(request, "job_state.html", **await _job(request, job, who, service))


async def _job(request: Request, job: str, who: Caller, service: Platform) -> dict[str, Any]:
    detail = await asyncio.to_thread(views.job_detail, service, who, job)
    entries = await asyncio.to_thread(service.store.log, job=job)
    why = await service.acall(lambda platform: views.explain_job(platform, who, job))
    return {
        "job": detail,
        "spec_text": json.dumps(detail["spec"], indent=2, ensure_ascii=False),
        "why": why,
        "why_words": _translated(request, why),
        "verbs": VERBS.get(JobState(detail["state"]), ()),
        "timeline": [_entry(entry) for entry in entries],
    }


def _translated(request: Request, why: dict[str, Any]) -> str:
    """The reason in the reader's language: its template is what is translated."""
    if "template" not in why:
        return str(why["words"])
    t = translator(request)
    numbers = {"needed": f"{why['needed']:g}", "free": f"{why['free']:g}"}
    return t(why["template"]).format(**numbers, unit=t(why["unit"]), of=why["of"])


def _entry(entry: Any) -> dict[str, Any]:
    body = dict(entry["body"])
    if entry["kind"] == "state":
        words = f"{body.get('from')} → {body.get('to')}"
    elif entry["kind"] == "placed":
        words = ", ".join(dict.fromkeys(slot[1] for slot in body["slots"]))
    else:
        words = ", ".join(
            f"{name}={value}" for name, value in body.items() if value not in (None, "", [], {})
        )
    why = body.get("why", "") if entry["kind"] == "state" else ""
    return {**entry, "at": views.moment(entry["at"]), "words": words, "why": why}


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} → {item}" for name, item in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


@router.post("/jobs/{job}/{verb}")
async def job_form(request: Request, job: str, verb: str, who: Caller, service: Platform) -> Response:
    """The buttons of a job's page."""
    if verb in jobs.USE_CASES:
        use_case = jobs.USE_CASES[verb]
        await service.acall(lambda platform: use_case(platform, who, job))
    return RedirectResponse(link(request, f"/jobs/{job}"), status_code=303)


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
    """Queues with their shares."""
    rows = await service.acall(lambda platform: views.queues_view(platform, who))
    return page(request, "queues.html", queues=rows)


@router.get("/faults", response_class=HTMLResponse)
def faults_page(request: Request, who: Caller, service: Platform) -> HTMLResponse:
    """The newest faults."""
    rows = service.store.recent_faults(who.scope())
    return page(request, "faults.html", faults=[{**row, "at": views.moment(row["at"])} for row in rows])
