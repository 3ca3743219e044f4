"""The REST interface under /api/v1; its words are the command line's."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field

from l2_aistation._kit.problems import NotFound
from l2_aistation.adapters.l1_podsys import SCHEMA, ClusterReportSource
from l2_aistation.core.states import JobState
from l2_aistation.documents import JobSpec
from l2_aistation.service import arrays, jobs, logs, nodes, replaying, times, views
from l2_aistation.service.reliability import reliability

from .common import Caller, Operator, Platform, json_body
from .hot import BULK_LIMIT_BYTES, KEY_LENGTH
from .submitting import take, take_many

router = APIRouter(prefix="/api/v1")
REPORT_LIMIT_BYTES = 64_000_000
Name = Annotated[str, Query(max_length=80)]
Key = Annotated[str | None, Header(max_length=KEY_LENGTH)]


def _document(schema: str, *, several: bool = False) -> dict[str, Any]:
    """The body of a route that reads its document itself, within a bound."""
    described: dict[str, Any] = {"type": "object", "description": f"a document of schema {schema}"}
    if several:
        described = {"type": "object", "properties": {"jobs": {"type": "array", "items": described}}}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": described}}}}


class CordonReason(BaseModel):
    """Why a node is cordoned."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(default="", max_length=1000, pattern=r"^[^\x00]*$")


@router.post("/jobs", status_code=201, openapi_extra=_document(JobSpec.SCHEMA))
async def submit(
    request: Request,
    who: Caller,
    service: Platform,
    tenant: Name | None = None,
    idempotency_key: Key = None,
) -> dict[str, Any]:
    """Submits a job-spec/v1; the answer comes when the job is durable."""
    value = await json_body(request, service.settings.spec_limit_bytes, "job-spec")
    return await take(service, who, value, tenant=tenant, key=idempotency_key)


@router.post("/jobs:bulk", status_code=201, openapi_extra=_document(JobSpec.SCHEMA, several=True))
async def submit_bulk(
    request: Request, who: Caller, service: Platform, tenant: Name | None = None, idempotency_key: Key = None
) -> dict[str, Any]:
    """Submits several job-specs, all or none; a dependency may name another of them by its name."""
    value = await json_body(request, BULK_LIMIT_BYTES, "submission")
    return await take_many(service, who, value, tenant=tenant, key=idempotency_key)


@router.get("/jobs")
def list_jobs(
    who: Caller,
    service: Platform,
    state: JobState | None = None,
    queue: Name | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> list[dict[str, Any]]:
    """Jobs, newest first."""
    states = [state.value] if state is not None else []
    rows = service.store.jobs(who.scope(), states=states, queue=queue, limit=limit)
    return [views.job_view(row) for row in rows]


@router.get("/jobs/{job}")
def show_job(job: str, who: Caller, service: Platform) -> dict[str, Any]:
    """A job with its spec, attempts and faults; an array, by its id, with its jobs."""
    try:
        return views.job_detail(service, who, job)
    except NotFound:
        return arrays.array_view(arrays.members(service, who, job))


@router.get("/jobs/{job}/explain")
async def explain_job(job: str, who: Caller, service: Platform) -> dict[str, Any]:
    """Why a job waits."""
    return await service.acall(lambda platform: views.explain_job(platform, who, job))


@router.get("/jobs/{job}/record")
def job_record(job: str, who: Caller, service: Platform) -> dict[str, Any]:
    """What became of a job: job-record/v1."""
    return views.record(service, who, job).as_json()


@router.get("/jobs/{job}/reliability")
def job_reliability(job: str, who: Caller, service: Platform) -> dict[str, Any]:
    """What became of a job's time: goodput, ETTR, MTTR, MTBF, seconds by phase and by cause."""
    return reliability(service, who, job)


@router.get("/jobs/{job}/steps")
def job_steps(
    job: str, who: Caller, service: Platform, after: Annotated[int, Query(ge=0, le=2**62)] = 0
) -> list[dict[str, Any]]:
    """The steps that a job reported."""
    views.job_row(service, who, job)
    return [{**row, "at": times.moment(row["at"])} for row in service.store.steps(job, after)]


@router.get("/jobs/{job}/log")
def job_log(
    job: str, who: Caller, service: Platform, after: Annotated[int, Query(ge=0, le=2**62)] = 0
) -> list[dict[str, Any]]:
    """What happened to a job, in order: submissions, placements, states, faults, decisions."""
    views.job_row(service, who, job)
    return [{**row, "at": times.moment(row["at"])} for row in service.store.log(job=job, after=after)]


@router.get("/jobs/{job}/logs", response_class=PlainTextResponse)
def job_logs(
    job: str,
    who: Caller,
    service: Platform,
    rank: Annotated[int, Query(ge=0, le=10**6)] = 0,
    attempt: Annotated[int | None, Query(ge=1, le=10**6)] = None,
    lines: Annotated[int, Query(ge=1, le=100_000)] = 1000,
) -> PlainTextResponse:
    """The end of what a rank wrote."""
    return PlainTextResponse(logs.tail(service, who, job, rank=rank, attempt=attempt, lines=lines))


@router.post("/jobs/{job}/{verb}")
async def act(
    job: str, verb: Literal["cancel", "suspend", "release", "requeue"], who: Caller, service: Platform
) -> dict[str, Any]:
    """Cancels, suspends, releases or requeues a job, or the jobs of an array by its id."""
    return await service.acall(lambda platform: jobs.act(platform, who, job, verb))


@router.get("/pool")
async def show_pool(who: Caller, service: Platform) -> dict[str, Any]:
    """The pool: totals and every node."""
    return await service.acall(lambda platform: views.pool_view(platform, who))


@router.post("/pool", openapi_extra=_document(SCHEMA))
async def import_pool(request: Request, who: Operator, service: Platform) -> dict[str, Any]:
    """Takes the cluster of a cluster-report/v1 in as the pool."""
    value = await json_body(request, REPORT_LIMIT_BYTES, "cluster-report")
    facts = await asyncio.to_thread(ClusterReportSource(value).cluster)
    return await service.acall(lambda platform: nodes.import_pool(platform, who, facts))


@router.post("/nodes/{node}/cordon")
async def cordon(
    node: str, who: Operator, service: Platform, body: CordonReason | None = None
) -> dict[str, Any]:
    """Keeps new tasks off a node."""
    reason = body.reason if body is not None else ""
    return await service.acall(lambda platform: nodes.cordon(platform, who, node, reason))


@router.post("/nodes/{node}/uncordon")
async def uncordon(node: str, who: Operator, service: Platform) -> dict[str, Any]:
    """Lets tasks onto a node again."""
    return await service.acall(lambda platform: nodes.uncordon(platform, who, node))


@router.get("/faults")
def show_faults(who: Caller, service: Platform) -> list[dict[str, Any]]:
    """The newest faults."""
    return [{**row, "at": times.moment(row["at"])} for row in service.store.recent_faults(who.scope())]


@router.get("/log")
def show_log(
    _who: Operator, service: Platform, after: Annotated[int, Query(ge=0, le=2**62)] = 0
) -> list[dict[str, Any]]:
    """The decision log, for operators."""
    return [{**row, "at": times.moment(row["at"])} for row in service.store.log(after=after)]


@router.get("/replay")
def replay(_who: Operator, service: Platform) -> dict[str, Any]:
    """Runs the decisions since the last snapshot again; `same` says that each came out as it did."""
    return replaying.replay_decisions(service)
