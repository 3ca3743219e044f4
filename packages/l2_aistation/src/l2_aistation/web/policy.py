"""REST of what shapes decisions: the tree of queues, reservations and maintenance, what-if."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from l2_aistation.service import queues, views, windows
from l2_aistation.service.times import seconds_of

from .common import Caller, Operator, Platform

router = APIRouter(prefix="/api/v1")
Amount = Annotated[int, Field(ge=0, le=10**9)]
Word = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]


class CellGuarantee(BaseModel):
    """A guarantee in whole domains of the topology."""

    model_config = ConfigDict(extra="forbid")

    level: Literal["node", "rack", "leaf", "spine", "site"]
    count: Annotated[int, Field(ge=1, le=10**6)]
    model: Word | None = None


class QueueLimits(BaseModel):
    """A queue's place in the tree and its limits."""

    model_config = ConfigDict(extra="forbid")

    parent: Annotated[str, Field(max_length=63)] | None = None
    guarantee_accelerators: Amount = 0
    guarantee_cpu_cores: float = Field(default=0, ge=0, le=10**9)
    cap_accelerators: Amount | None = None
    cap_cpu_cores: float | None = Field(default=None, ge=0, le=10**9)
    weight: float = Field(default=1, gt=0, le=10**6)
    guarantee_models: dict[Word, Amount] = Field(default_factory=dict, max_length=100)
    cap_models: dict[Word, Amount] = Field(default_factory=dict, max_length=100)
    cells: list[CellGuarantee] = Field(default_factory=list, max_length=100)
    user_limit_accelerators: Amount | None = None
    user_limit_jobs: Amount | None = None
    min_run_s: float = Field(default=0, ge=0, le=10**9)
    preemptible: bool = True
    unlimited: list[Word] = Field(default_factory=list, max_length=10)


class WindowRequest(BaseModel):
    """A time in which nodes are kept free, for some or for nobody."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["reservation", "maintenance"]
    start: datetime
    until: datetime
    nodes: list[Word] = Field(default_factory=list, max_length=100_000)
    count: Annotated[int, Field(ge=0, le=10**6)] = 0
    tenant: Annotated[str, Field(max_length=63)] | None = None
    users: list[Word] = Field(default_factory=list, max_length=1000)
    queues: list[Word] = Field(default_factory=list, max_length=1000)


@router.get("/queues")
async def show_queues(who: Caller, service: Platform) -> list[dict[str, Any]]:
    """Queues with their limits and use."""
    return await service.acall(lambda platform: views.queues_view(platform, who))


@router.put("/queues/{name}")
async def put_queue(name: str, body: QueueLimits, who: Caller, service: Platform) -> dict[str, Any]:
    """Adds a queue or changes it; the body is all of it."""
    limits = body.model_dump()
    return await service.acall(lambda platform: queues.put_queue(platform, who, name, limits))


@router.delete("/queues/{name}")
async def delete_queue(name: str, who: Caller, service: Platform) -> dict[str, Any]:
    """Takes a queue away that has no jobs and none below it."""
    return await service.acall(lambda platform: queues.delete_queue(platform, who, name))


@router.get("/windows")
async def show_windows(who: Caller, service: Platform) -> list[dict[str, Any]]:
    """Reservations and maintenance that are not over."""
    return await service.acall(lambda platform: windows.windows_view(platform, who))


@router.put("/windows/{name}")
async def put_window(name: str, body: WindowRequest, who: Operator, service: Platform) -> dict[str, Any]:
    """Keeps nodes free from when until when, for those who are let in or for nobody."""
    times = {"start": seconds_of(body.start), "until": seconds_of(body.until)}
    record = {**body.model_dump(), **times, "name": name}
    return await service.acall(lambda platform: windows.put_window(platform, who, record))


@router.delete("/windows/{name}")
async def delete_window(name: str, who: Operator, service: Platform) -> dict[str, Any]:
    """Takes a reservation or maintenance away."""
    return await service.acall(lambda platform: windows.delete_window(platform, who, name))
