"""REST of evaluations, the leader board and promotion."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from l4_mmodel._kit.problems import BadInput
from l4_mmodel.evaluation.reports import leader_board
from l4_mmodel.evaluation.suite import parse_suite
from l4_mmodel.service import Mmodel

from .access import Listed, Mine
from .runs import Runs

router = APIRouter(prefix="/api/v1", tags=["evaluation"])
Row = dict[str, Any]


class EvaluateRequest(BaseModel):
    """A suite, whose data are registered data sets, and the models to measure."""

    model_config = ConfigDict(extra="forbid")

    suite: dict[str, Any]
    models: list[str] = Field(min_length=1, max_length=16)


class PromoteRequest(BaseModel):
    """A version, the rule that it must fulfil and the alias that it is to get."""

    model_config = ConfigDict(extra="forbid")

    version: str
    rule: str = Field(max_length=500)
    alias: str = "production"
    baseline: str | None = None


@router.get("/evaluations")
def list_evaluations(request: Request, tenant: Listed) -> list[Row]:
    """Reports, newest first, without their items."""
    mmodel: Mmodel = request.app.state.mmodel
    found = mmodel.reported.all(tenant)
    return [{"digest": digest, **_head(report.as_json())} for digest, report in found]


@router.get("/evaluations/{digest}")
def get_evaluation(digest: str, request: Request, tenant: Listed) -> Row:
    """The whole `eval-report/v1`."""
    mmodel: Mmodel = request.app.state.mmodel
    return mmodel.reported.get(digest, tenant).as_json()


@router.post("/evaluations", status_code=202)
async def evaluate(body: EvaluateRequest, request: Request, mmodel: Mine) -> Row:
    """Begins an evaluation; `GET /evaluation-runs/ID` tells how it goes."""
    suite = parse_suite(body.suite, "suite")
    for task in suite.tasks:
        for name in filter(None, (task.data, task.few_shot_data)):
            if not name.startswith("dataset:"):
                raise BadInput(
                    "must be a registered data set", field=f"suite.tasks.{task.name}.data",
                    do="write dataset:NAME[@N][/FILE]",
                )  # fmt: skip
            mmodel.datasets.get(name.removeprefix("dataset:").partition("/")[0], mmodel.tenant)
    for ref in body.models:
        mmodel.version(ref)
    runs: Runs = request.app.state.runs
    return runs.start(suite.model_dump(mode="json"), body.models, mmodel.tenant).as_json()


@router.get("/evaluation-runs")
def list_runs(request: Request, tenant: Listed) -> list[Row]:
    """Evaluations asked for through REST, newest first."""
    runs: Runs = request.app.state.runs
    return [run.as_json() for run in runs.all(tenant)]


@router.get("/evaluation-runs/{run_id}")
def get_run(run_id: str, request: Request, tenant: Listed) -> Row:
    """One of them."""
    runs: Runs = request.app.state.runs
    return runs.get(run_id, tenant).as_json()


@router.get("/leader-board")
def get_leader_board(request: Request, tenant: Listed) -> list[Row]:
    """Models by suite, best accuracy first."""
    mmodel: Mmodel = request.app.state.mmodel
    return leader_board(mmodel.reported.all(tenant))


@router.post("/promotions")
def promote(body: PromoteRequest, mmodel: Mine) -> Row:
    """Moves an alias if the rule holds; the answer has each condition with what was measured."""
    return mmodel.promote(body.version, body.rule, baseline=body.baseline, alias=body.alias).as_json()


def _head(report: Row) -> Row:
    return {name: value for name, value in report.items() if name != "items"}
