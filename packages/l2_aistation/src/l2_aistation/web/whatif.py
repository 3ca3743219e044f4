"""What if, over REST and as a form on a waiting job's page."""

from __future__ import annotations

from typing import Annotated, Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict, Field

from l2_aistation._kit.problems import Problem
from l2_aistation._kit.tokens import Principal
from l2_aistation._kit.web import render, translator
from l2_aistation.core.whatif import Change
from l2_aistation.service import Service
from l2_aistation.service.whatif import answered, asked

from .common import Caller, Platform
from .pace import Pace, TooMany
from .words import sentence

MOST_WAITING = 16
router = APIRouter()
Name = Annotated[str, Field(min_length=1, max_length=80)]


class WhatIf(BaseModel):
    """What is different; what is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")

    nodes: int = Field(default=0, ge=0, le=10_000, description="so many more like the largest")
    caps: dict[Name, Annotated[int, Field(ge=0, le=10**9)]] = Field(
        default_factory=dict, max_length=100, description="caps of queues, in accelerators"
    )
    without: list[Name] = Field(default_factory=list, max_length=100, description="jobs that are gone")
    queue: Name | None = None
    priority: int | None = Field(default=None, ge=-(10**9), le=10**9)
    count: int | None = Field(default=None, ge=1, le=10**6, description="tasks of the job")
    accelerators: int | None = Field(default=None, ge=1, le=64, description="of each task")
    time_s: float | None = Field(default=None, gt=0, le=10**9)

    def change(self) -> Change:
        """The core's word for it."""
        return Change(**{**self.model_dump(), "without": tuple(self.without)})


class Asked(BaseModel):
    """The form of the page, as typed."""

    nodes: str = Field(default="", max_length=9)
    count: str = Field(default="", max_length=9)
    priority: str = Field(default="", max_length=9)
    queue: str = Field(default="", max_length=80)
    without: str = Field(default="", max_length=4000)


class Desk:
    """Answers one after the other in a thread; `TooMany` where too many wait, or one asks too often."""

    def __init__(self, per_minute: int) -> None:
        self.pace = Pace(per_minute / 60, max(per_minute // 4, 1))
        self.one = anyio.CapacityLimiter(1)

    async def ask(self, service: Service, who: Principal, job: str, change: Change) -> dict[str, Any]:
        """The answer to a question of the caller."""
        self.pace.take(f"{who.tenant}/{who.name}")
        if self.one.statistics().tasks_waiting >= MOST_WAITING:
            raise TooMany("many others ask at the moment", 2.0)
        async with self.one:  # first: a copy of the live state is not to wait for its turn
            question = await service.acall(
                lambda platform: asked(platform, service.cycles.policies, who, job, change)
            )
            return await anyio.to_thread.run_sync(answered, question, who)


@router.post("/api/v1/jobs/{job}/what-if", responses={429: {"description": "asked too often: Retry-After"}})
async def ask_what_if(
    request: Request, job: str, body: WhatIf, who: Caller, service: Platform
) -> dict[str, Any]:
    """Whether a waiting job would start if something were different; nothing is changed."""
    desk: Desk = request.app.state.what_if
    return await desk.ask(service, who, job, body.change())


@router.post("/fragments/jobs/{job}/what-if", include_in_schema=False, response_class=HTMLResponse)
async def ask_on_page(
    request: Request, job: str, who: Caller, service: Platform, form: Annotated[Asked, Form()]
) -> HTMLResponse:
    """The answer as a piece of the job's page."""
    given = {**form.model_dump(), "without": form.without.split()}
    try:
        body = WhatIf.model_validate({name: value for name, value in given.items() if value})
    except ValueError:
        return _said(request, problem=translator(request)("Numbers must be whole and not negative"))
    try:
        answer = await ask_what_if(request, job, body, who, service)
    except Problem as problem:
        return _said(request, problem=problem.what)
    return _said(request, answer=answer)


def _said(request: Request, *, answer: dict[str, Any] | None = None, problem: str = "") -> HTMLResponse:
    words = "" if answer is None else sentence(translator(request), answer["words"])
    return render(request, "what_if.html", answer=answer, words=words, problem=problem)
