"""The pages: data sets with their funnel, documents side by side, recipes, training runs, plans."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, Response

from l3_ylink._kit.problems import NotFound, Problem
from l3_ylink._kit.tokens import Principal
from l3_ylink._kit.web import Caller, render
from l3_ylink.datakit.quality.rules import RULES
from l3_ylink.datakit.recipe import STEPS
from l3_ylink.datakit.report import WIDTH, waterfall
from l3_ylink.datakit.report.curves import Curve
from l3_ylink.datakit.report.dials import Dial
from l3_ylink.datakit.report.page import line, spot

from .rest import library, read_recipe
from .sides import sides

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
    if not found.manifest:
        return render(request, "dataset.html", dataset=found)
    stages, alarms = library(request).funnel(mark, who)
    return render(
        request,
        "dataset.html",
        dataset=found,
        bars=bars,
        width=WIDTH,
        thresholds=[_drawn(row) for row in library(request).thresholds(mark, who)],
        stages=stages,
        alarms=alarms,
        licences=library(request).licences(mark, who),
    )


def _drawn(row: dict[str, Any]) -> dict[str, Any]:
    """A threshold as a slider: 200 places over its curve, where the curve has one."""
    if row["points"] is None:
        value = float(row["value"] or 0)
        low, high = (0.0, 1.0) if 0 <= value <= 1 else (0.0, 4 * value)
        row = {**row, "low": low, "high": high, "logarithmic": False, "points": []}
    dial = Dial(**{name: row[name] for name in Dial._fields})
    curve = Curve(dial, row["count"] or 0, 0.0, row["low"], row["high"], row["logarithmic"], row["points"])
    at = None if row["value"] is None else spot(curve, float(row["value"]))
    return {**row, "line": line(curve), "at": at, "data": json.dumps(row["points"])}


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
    return _document(request, mark, who, id, walk=None)


@pages.get("/data/{mark}/look")
def look(
    request: Request,
    mark: str,
    who: Caller,
    by: Annotated[str, Query(max_length=200)] = "",
    at: Annotated[int, Query(ge=0, le=10**12)] = 0,
) -> Response:
    """Documents one after the other by what was decided of them: kept, or dropped by a rule."""
    found = library(request).dataset(mark, who)
    step, _, reason = by.partition(":")
    kept = {"kept": True, "dropped": False}.get(by)
    chosen = {"step": step, "reason": reason} if reason else {"step": None, "reason": None}
    count, rows = library(request).documents(mark, who, **chosen, kept=kept, offset=at, most=1)
    if not rows:
        return render(request, "look.html", dataset=found, by=by, walk=None)
    walk = {"by": by, "at": at, "count": count}
    return _document(request, mark, who, rows[0]["id"], walk=walk)


def _document(
    request: Request, mark: str, who: Principal, name: str, walk: dict[str, Any] | None
) -> Response:
    found = library(request).dataset(mark, who)
    explanation, original = library(request).document(mark, name, who)
    before, after = sides(original.text, explanation.text, explanation.cuts)
    return render(
        request,
        "document.html",
        dataset=found,
        document=explanation,
        original=original,
        before=before,
        after=after,
        walk=walk,
    )


@pages.get("/data/{mark}/cost")
def cost(
    request: Request,
    mark: str,
    who: Caller,
    terabytes: Annotated[float, Query(gt=0, le=10**9)] = 866,
    cores: Annotated[int, Query(ge=1, le=10**8)] = 1000,
) -> Response:
    """What the recipe would cost on a cluster, as a fragment."""
    try:
        found, problem = library(request).cost(mark, terabytes * 1e12, cores, who), None
    except NotFound as error:
        library(request).dataset(mark, who)  # another tenant's data set is not there at all
        found, problem = None, error
    return render(request, "cost.html", found=found, problem=problem, cores=cores)


@pages.get("/data/{mark}/whatif")
def whatif(request: Request, mark: str, who: Caller) -> Response:
    """The funnel with other thresholds, as a fragment."""
    changes = {name: value for name, value in request.query_params.items() if "." in name and value.strip()}
    known = {row["setting"]: row["value"] for row in library(request).thresholds(mark, who)}
    changed = {name: value for name, value in changes.items() if not _same(known.get(name), value)}
    if not changed:
        return render(request, "whatif.html", found=None, problem=None, mark=mark)
    try:
        found = library(request).whatif(mark, changed, who)
    except Problem as problem:
        return render(request, "whatif.html", found=None, problem=problem, mark=mark)
    return render(request, "whatif.html", found=found, problem=None, mark=mark)


def _same(known: float | None, value: str) -> bool:
    """Whether a field still says what the recipe says."""
    try:
        return known is not None and float(value) == float(known)
    except ValueError:
        return False


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
