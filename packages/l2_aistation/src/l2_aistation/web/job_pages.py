"""The pages of jobs: the list, a page at a time, and one job with its time line and why it waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

import yaml
from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from l2_aistation._kit.problems import BadInput
from l2_aistation._kit.tokens import Principal
from l2_aistation._kit.web import language, link, render, translator
from l2_aistation.core.refusal import Refusal
from l2_aistation.core.states import JobState
from l2_aistation.service import jobs, views
from l2_aistation.service.platform import Platform as State
from l2_aistation.service.reliability import reliability
from l2_aistation.service.rights import may_act
from l2_aistation.service.times import moment
from l2_aistation.store import listing

from .common import Caller, Platform
from .live import live_of
from .timeline import span_words, timeline
from .words import sentence

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
}
VERBS = {
    JobState.QUEUED: ("suspend", "cancel"),
    JobState.SUSPENDED: ("release", "cancel"),
    JobState.STARTING: ("suspend", "requeue", "cancel"),
    JobState.RUNNING: ("suspend", "requeue", "cancel"),
    JobState.HELD: ("suspend", "requeue", "cancel"),
    JobState.RESUMING: ("suspend", "requeue", "cancel"),
    JobState.STOPPING: ("cancel",),
}
STATES = tuple(str(state) for state in JobState)
Word = Annotated[str, Query(max_length=100)]


async def wanted_of(
    state: Annotated[str, Query(max_length=16)] = "",
    queue: Word = "",
    tenant: Word = "",
    user: Word = "",
    text: Word = "",
    sort: Annotated[str, Query(max_length=16)] = "-submitted",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> listing.Listing:
    """What the query asks for; a state or an order that is none counts as not given."""
    sort = sort if sort.removeprefix("-") in listing.SORTS else "-submitted"
    states = (state,) if state in STATES else ()
    return listing.Listing(states, queue, tenant, user, text.strip(), sort, page)


Wanted = Annotated[listing.Listing, Depends(wanted_of)]


@router.get("/jobs", response_class=HTMLResponse)
async def jobs_page(request: Request, who: Caller, service: Platform, wanted: Wanted) -> HTMLResponse:
    """The list of jobs."""
    return page(request, "jobs.html", **await _jobs(request, who, service, wanted))


@router.get("/fragments/jobs", response_class=HTMLResponse)
async def jobs_fragment(request: Request, who: Caller, service: Platform, wanted: Wanted) -> HTMLResponse:
    """The part of the list that changes; made once for all who look at the same until something happens."""
    board = await live_of(request.app, service).recent()
    key = ("jobs", who.scope(), language(request), wanted)
    if key not in board.cache:
        made = page(request, "jobs_table.html", **await _jobs(request, who, service, wanted))
        board.remembered(key, lambda: bytes(made.body))
    return HTMLResponse(board.remembered(key, bytes))


async def _jobs(request: Request, who: Caller, service: Platform, wanted: listing.Listing) -> dict[str, Any]:
    rows, total = await asyncio.to_thread(listing.page, service.store, who.scope(), wanted)
    counted = await asyncio.to_thread(service.store.counts, who.scope())
    waiting = [row["id"] for row in rows if row["state"] == "queued"]
    reasons, queues = await service.acall(
        lambda platform: (
            {name: platform.world.waiting.refusal(name) for name in waiting},
            sorted(platform.world.queues),
        )
    )
    counts: dict[str, int] = {}
    for row in counted:
        counts[row["state"]] = counts.get(row["state"], 0) + row["jobs"]
    now = service.platform.clock()
    pages = max(-(-total // wanted.per_page), 1)
    return {
        "rows": [_row(request, row, reasons.get(row["id"]), now) for row in rows],
        "total": total,
        "counts": counts,
        "states": STATES,
        "queues": queues,
        "wanted": wanted,
        "state": "".join(wanted.states),
        "pages": pages,
        "first": (wanted.page - 1) * wanted.per_page + 1 if rows else 0,
        "last": (wanted.page - 1) * wanted.per_page + len(rows),
        "query": lambda **other: _query(wanted, **other),
        "all_tenants": who.is_operator,
    }


def _query(wanted: listing.Listing, **other: Any) -> str:
    """The query of the same list with something else in it; another filter begins at the first page."""
    values: dict[str, Any] = {
        "state": "".join(wanted.states),
        "queue": wanted.queue,
        "tenant": wanted.tenant,
        "user": wanted.user,
        "text": wanted.text,
        "sort": "" if wanted.sort == "-submitted" else wanted.sort,
        "page": "",
    } | other
    return urlencode({name: value for name, value in values.items() if value not in ("", None, 1)})


def _row(request: Request, row: Mapping[str, Any], refusal: Refusal | None, now: float) -> dict[str, Any]:
    ends = row["ended_at"] or now
    began = row["started_at"]
    words = refusal.words() if refusal is not None else row["why"] or row["cause"] or ""
    note = sentence(translator(request), words)
    return {
        **views.job_view(row),
        "accelerators": row["accelerators"],
        "note": "" if note == row["state"] else note,
        "waited": span_words((began or ends) - row["submitted_at"]),
        "ran": span_words(None if began is None else ends - began),
    }


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
    row = await asyncio.to_thread(views.job_row, service, who, job)
    detail = await asyncio.to_thread(views.job_detail, service, who, job)
    entries = await asyncio.to_thread(service.store.log, job=job)
    attempts = await asyncio.to_thread(service.store.attempts, job)
    faults = await asyncio.to_thread(service.store.faults, job)
    figures = await asyncio.to_thread(reliability, service, who, job)
    why, allowed = await service.acall(
        lambda platform: (views.explain_job(platform, who, job), _may_act(platform, who, job))
    )
    t, now = translator(request), service.platform.clock()
    began, ends = row["started_at"], row["ended_at"] or now
    return {
        "job": detail,
        "accelerators": row["accelerators"],
        "waited": span_words((began or ends) - row["submitted_at"]),
        "ran": span_words(None if began is None else ends - began),
        "spec_text": json.dumps(detail["spec"], indent=2, ensure_ascii=False),
        "why": why,
        "why_words": sentence(t, str(why["words"])),
        "promised": moment(row["promised_at"]),
        "verbs": VERBS.get(JobState(detail["state"]), ()) if allowed else (),
        "figures": figures,
        "timeline": timeline(row, entries, attempts, faults, now),
        "span": span_words,
        "entries": [_entry(t, entry) for entry in reversed(entries)],
    }


def _may_act(platform: State, who: Principal, name: str) -> bool:
    job = platform.world.jobs.get(name)
    return job is not None and may_act(platform, who, job)


def _entry(t: Callable[[str], str], entry: Mapping[str, Any]) -> dict[str, Any]:
    body = dict(entry["body"])
    if entry["kind"] == "state":
        words = f"{t(body.get('from', ''))} → {t(body.get('to', ''))}"
    elif entry["kind"] == "placed":
        words = _shortened(list(dict.fromkeys(slot[1] for slot in body["slots"])))
    else:
        values = {name: value for name, value in body.items() if name != "why"}
        words = ", ".join(
            f"{t(name)}={_plain(value)}" for name, value in values.items() if value not in (None, "", [], {})
        )
    why = sentence(t, str(body.get("why") or ""))
    return {**entry, "at": moment(entry["at"]), "words": words, "why": why}


def _shortened(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" … ({len(names)})" if len(names) > most else "")


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return _shortened([f"{name} → {item}" for name, item in value.items()])
    return _shortened([str(item) for item in value]) if isinstance(value, list) else str(value)


@router.post("/jobs/{job}/{verb}")
async def job_form(request: Request, job: str, verb: str, who: Caller, service: Platform) -> Response:
    """The buttons of a job's page."""
    if verb in jobs.USE_CASES:
        use_case = jobs.USE_CASES[verb]
        await service.acall(lambda platform: use_case(platform, who, job))
    return RedirectResponse(link(request, f"/jobs/{job}"), status_code=303)


def page(request: Request, template: str, **context: Any) -> HTMLResponse:
    """A page with the badges for states."""
    return render(request, template, badges=BADGES, **context)
