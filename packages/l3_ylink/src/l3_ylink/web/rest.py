"""REST of this layer: data sets and their documents, recipes, training runs, plans."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import yaml
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from l3_ylink._kit.problems import BadInput
from l3_ylink._kit.web import Caller
from l3_ylink.datakit.quality.rules import RULES
from l3_ylink.datakit.recipe import Recipe, parse_recipe
from l3_ylink.service import Dataset, Library

rest = APIRouter(prefix="/api/v1", tags=["ylink"])


class Changes(BaseModel):
    """Settings to try: `STEP.SETTING` -> value."""

    model_config = ConfigDict(extra="forbid")

    changes: dict[str, Any] = Field(min_length=1, max_length=200)


class RecipeText(BaseModel):
    """A recipe as YAML."""

    model_config = ConfigDict(extra="forbid")

    recipe: str = Field(max_length=1_000_000)


def library(request: Request) -> Library:
    """The application's library."""
    found: Library = request.app.state.library
    return found


@rest.get("/datasets")
def datasets(request: Request, who: Caller) -> list[dict[str, Any]]:
    """The caller's data sets, the newest first."""
    return [_brief(dataset) for dataset in library(request).datasets(who)]


@rest.get("/datasets/{mark}")
def dataset(request: Request, mark: str, who: Caller) -> dict[str, Any]:
    """A data set with its manifest (`dataset-manifest/v1`)."""
    found = library(request).dataset(mark, who)
    manifest = None if found.manifest is None else found.manifest.as_json()
    instructions = None if found.instructions is None else found.instructions.as_json()
    return {**_brief(found), "manifest": manifest, "instructions": instructions}


def _brief(found: Dataset) -> dict[str, Any]:
    manifest = found.manifest
    return {
        "id": found.entry.id,
        "name": found.entry.name,
        "tenant": found.entry.tenant,
        "state": "running" if manifest is None else "finished",
        "kind": None if manifest is None else manifest.kind,
        "rows": None if manifest is None else manifest.rows,
        "tokens": None if manifest is None else manifest.tokens,
        "digest": None if manifest is None else manifest.digest(),
    }


@rest.get("/datasets/{mark}/documents")
def documents(
    request: Request,
    mark: str,
    who: Caller,
    step: str | None = None,
    reason: str | None = None,
    kept: bool | None = None,
    offset: Annotated[int, Query(ge=0, le=10**12)] = 0,
    most: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> dict[str, Any]:
    """Documents by their fate: kept, or dropped by a step for a reason."""
    count, rows = library(request).documents(
        mark, who, step=step, reason=reason, kept=kept, offset=offset, most=most
    )
    return {"count": count, "documents": rows}


@rest.get("/datasets/{mark}/document")
def document(request: Request, mark: str, who: Caller, id: str) -> dict[str, Any]:  # noqa: A002
    """One document: every rule with value and bound, its text, and what its file said."""
    found, original = library(request).document(mark, id, who)
    return {
        "id": found.id,
        "kept": found.kept,
        "step": found.step,
        "reason": found.reason,
        "value": found.value,
        "threshold": found.threshold,
        "other": found.other,
        "checks": [check._asdict() for check in found.checks],
        "signals": found.signals,
        "cuts": found.cuts,
        "lineage": None if found.lineage is None else asdict(found.lineage),
        "text": found.text,
        "original": original.text,
        "original_missing": original.missing,
    }


@rest.get("/datasets/{mark}/thresholds")
def thresholds(request: Request, mark: str, who: Caller) -> list[dict[str, Any]]:
    """Every threshold that can be tried without measuring again."""
    return library(request).thresholds(mark, who)


@rest.post("/datasets/{mark}/whatif")
def whatif(request: Request, mark: str, who: Caller, body: Changes) -> dict[str, Any]:
    """What other settings would keep and drop; nothing is written."""
    found = library(request).whatif(mark, body.changes, who)
    return {
        "kept_before": found.kept_before,
        "kept_after": found.kept_after,
        "now_kept": found.now_kept,
        "now_dropped": found.now_dropped,
        "before": [step.model_dump() for step in found.before],
        "after": [step.model_dump() for step in found.after],
        "samples": found.samples,
    }


@rest.get("/datasets/{mark}/cost")
def cost(
    request: Request,
    mark: str,
    who: Caller,
    input_bytes: Annotated[float, Query(gt=0, le=1e21)],
    cores: Annotated[int, Query(ge=1, le=10**8)] = 1000,
) -> dict[str, Any]:
    """What the recipe would cost over so many bytes on so many cores, from the run's own rates."""
    return library(request).cost(mark, input_bytes, cores, who).as_json()


@rest.get("/datasets/{mark}/licences")
def licences(request: Request, mark: str, who: Caller) -> dict[str, Any]:
    """What the licences of the sources ask for together."""
    return library(request).licences(mark, who)._asdict()


@rest.get("/rules")
def rules(_who: Caller) -> list[dict[str, Any]]:
    """Every quality rule with its signal and its bound by kind of language."""
    return [rule._asdict() for rule in RULES]


@rest.get("/recipes/schema")
def recipe_schema(_who: Caller) -> dict[str, Any]:
    """The JSON Schema of a recipe."""
    return Recipe.model_json_schema()


@rest.post("/recipes/check")
def check_recipe(_who: Caller, body: RecipeText) -> dict[str, Any]:
    """Validates a recipe: its digest and every setting spelt out, or a problem that names the field."""
    recipe = read_recipe(body.recipe)
    return {"digest": recipe.digest(), "recipe": recipe.model_dump(mode="json")}


def read_recipe(text: str) -> Recipe:
    """A recipe from YAML text."""
    try:
        return parse_recipe(yaml.safe_load(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadInput(f"is not readable YAML: {' '.join(str(error).split())}", field="recipe") from error


@rest.get("/runs")
def runs(request: Request, who: Caller) -> list[dict[str, Any]]:
    """The caller's training runs, the newest first."""
    return library(request).runs(who)


@rest.get("/runs/{mark}")
def run(request: Request, mark: str, who: Caller) -> dict[str, Any]:
    """A training run: kind, state, attempt, figures."""
    return library(request).run(mark, who)


@rest.get("/runs/{mark}/curve")
def curve(request: Request, mark: str, who: Caller) -> dict[str, list[float | None]]:
    """The loss curve as columns: step, loss, attempt."""
    return library(request).curve(mark, who)


@rest.get("/plans")
def plans(request: Request, who: Caller) -> list[dict[str, Any]]:
    """The caller's parallel plans, the newest first."""
    return [
        {"id": entry.id, "name": entry.name, "plan": plan.as_json()}
        for entry, plan in library(request).plans(who)
    ]


@rest.get("/plans/{mark}")
def plan(request: Request, mark: str, who: Caller) -> dict[str, Any]:
    """One plan (`parallel-plan/v1`)."""
    entry, found = library(request).plan(mark, who)
    return {"id": entry.id, "name": entry.name, "plan": found.as_json()}
