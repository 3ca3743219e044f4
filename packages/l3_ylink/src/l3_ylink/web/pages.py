"""The pages: data sets with their funnel, documents side by side, recipes, training runs, plans."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, Response

from l3_ylink._kit.problems import Problem
from l3_ylink._kit.web import Caller, render
from l3_ylink.datakit.quality.rules import RULES
from l3_ylink.datakit.recipe import STEPS
from l3_ylink.datakit.report import WIDTH, waterfall

from .rest import library, read_recipe

pages = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
PAGE = 50


@pages.get("/")
def overview(request: Request, who: Caller) -> Response:
    """How much there is of each kind, and the newest of each."""
    found = library(request)
    return render(
        request, "overview.html", datasets=found.datasets(who), runs=found.runs(who), plans=found.plans(who)
    )


@pages.get("/data")
def datasets(request: Request, who: Caller) -> Response:
    """Data sets."""
    return render(request, "datasets.html", datasets=library(request).datasets(who))


@pages.get("/data/{mark}")
def dataset(request: Request, mark: str, who: Caller) -> Response:
    """A data set: funnel, sources, contamination, thresholds to try."""
    found = library(request).dataset(mark, who)
    bars = waterfall(found.manifest.steps) if found.manifest else []
    thresholds = library(request).thresholds(mark, who) if found.manifest else []
    return render(request, "dataset.html", dataset=found, bars=bars, width=WIDTH, thresholds=thresholds)


@pages.get("/data/{mark}/documents")
def documents(
    request: Request,
    mark: str,
    who: Caller,
    step: str = "",
    reason: str = "",
    kept: str = "",
    offset: Annotated[int, Query(ge=0)] = 0,
) -> Response:
    """Documents by their fate."""
    found = library(request).dataset(mark, who)
    count, rows = library(request).documents(
        mark,
        who,
        step=step or None,
        reason=reason or None,
        kept={"yes": True, "no": False}.get(kept),
        offset=offset,
        most=PAGE,
    )

    def here(start: int) -> str:
        query = {"step": step, "reason": reason, "kept": kept, "offset": start or ""}
        return "?" + urlencode({name: value for name, value in query.items() if value})

    return render(
        request,
        "documents.html",
        dataset=found,
        count=count,
        rows=rows,
        step=step,
        reason=reason,
        kept=kept,
        offset=offset,
        page=PAGE,
        here=here,
    )


@pages.get("/data/{mark}/document")
def document(request: Request, mark: str, who: Caller, id: str) -> Response:  # noqa: A002
    """A document side by side with what its file said, and every rule that was looked at."""
    found = library(request).dataset(mark, who)
    explanation, original = library(request).document(mark, id, who)
    return render(request, "document.html", dataset=found, document=explanation, original=original)


@pages.get("/data/{mark}/whatif")
def whatif(request: Request, mark: str, who: Caller) -> Response:
    """The funnel with other thresholds, as a fragment."""
    changes = {name: value for name, value in request.query_params.items() if "." in name and value.strip()}
    known = {row["setting"]: row["value"] for row in library(request).thresholds(mark, who)}
    changed = {name: value for name, value in changes.items() if str(known.get(name)) != value}
    if not changed:
        return render(request, "whatif.html", found=None, problem=None, mark=mark)
    try:
        found = library(request).whatif(mark, changed, who)
    except Problem as problem:
        return render(request, "whatif.html", found=None, problem=problem, mark=mark)
    return render(request, "whatif.html", found=found, problem=None, mark=mark)


@pages.get("/recipes")
def recipes(request: Request, _who: Caller) -> Response:
    """The steps and rules that a recipe is made of, and a field to check one."""
    return render(request, "recipes.html", steps=STEPS, rules=RULES, text="", recipe=None, problem=None)


@pages.post("/recipes")
def check_recipe(request: Request, _who: Caller, recipe: Annotated[str, Form()] = "") -> Response:
    """Checks a recipe."""
    try:
        found, problem = read_recipe(recipe), None
    except Problem as error:
        found, problem = None, error
    return render(
        request, "recipes.html", steps=STEPS, rules=RULES, text=recipe, recipe=found, problem=problem
    )


@pages.get("/training")
def training(request: Request, who: Caller) -> Response:
    """Training runs."""
    return render(request, "training.html", runs=library(request).runs(who))


@pages.get("/training/{mark}")
def run(request: Request, mark: str, who: Caller) -> Response:
    """A training run with its loss curve."""
    return render(request, "run.html", run=library(request).run(mark, who))


@pages.get("/plans")
def plans(request: Request, who: Caller) -> Response:
    """Parallel plans."""
    return render(request, "plans.html", plans=library(request).plans(who))


@pages.get("/plans/{mark}")
def plan(request: Request, mark: str, who: Caller) -> Response:
    """A plan with its reasons."""
    entry, found = library(request).plan(mark, who)
    return render(request, "plan.html", entry=entry, plan=found)
