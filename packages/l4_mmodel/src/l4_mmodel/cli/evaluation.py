"""Commands of evaluation: eval, compare, reports, promote."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from l4_mmodel._kit import command_line as line
from l4_mmodel._kit.problems import BadInput, Failed

from .common import Json, Parent, Progress, Tenant, app, follow, open_layer


@app.command("eval")
def evaluate(
    suite: Path,
    model: Annotated[list[str], typer.Option(help="NAME, NAME@3 or NAME@alias; the first is the baseline")],
    out: Annotated[Path | None, typer.Option(help="folder for the eval-report/v1 documents")] = None,
    fresh: Annotated[bool, typer.Option(help="measure anew what is known already")] = False,
    runner: Annotated[
        str, typer.Option(help="local, or aistation: as a job (needs l4-mmodel[aistation])")
    ] = "local",
    tenant: Tenant = None,
    as_json: Json = False,
    parent: Parent = None,
) -> None:
    """Evaluate models on a suite and compare them with the first."""
    follow(parent)
    mmodel = open_layer(tenant)
    if runner == "aistation":
        _evaluate_as_job(mmodel, suite, model)  # what it measured is kept, and read here
    elif runner != "local":
        raise BadInput(f"{runner!r} is no runner", field="runner", do="use local or aistation")
    with Progress(as_json) as advance:
        reports = mmodel.evaluate(
            suite, model, out=out, fresh=fresh,
            progress=lambda ref, what, done, total: advance(f"{ref}: {what}", done, total),
        )  # fmt: skip
    if as_json:
        line.show_json([report.as_json() for report in reports])
        return
    line.show(_metric_rows(reports), ("model", "task", "metric", "value", "low", "high", "n"), as_json=False)
    line.show(_latency_rows(reports), ("model", "latency", "p50_ms", "p90_ms", "p99_ms"), as_json=False)
    rows = [{"model": r.model_name, **r.stability.model_dump()} for r in reports if r.stability]
    if rows:
        line.show(rows, ("model", "repeats", "temperature", "equal_answers", "error_rate"), as_json=False)
    for report in reports[1:]:
        _show_comparison(report.model_name, report.comparisons, as_json=False)


@app.command()
def compare(
    candidate: Annotated[str, typer.Argument(help="model, or path of an eval-report/v1")],
    baseline: Annotated[str, typer.Argument(help="model, or path of an eval-report/v1")],
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Compare the reports of two models over the same items."""
    mmodel = open_layer(tenant)
    ours = _report(mmodel, candidate)
    same = ours.suite_digest if not Path(baseline).is_file() else None
    rows = mmodel.compare(ours, _report(mmodel, baseline, same))
    _show_comparison(ours.model_name, rows, as_json=as_json)


@app.command()
def reports(tenant: Tenant = None, as_json: Json = False) -> None:
    """Show the leader board: models by suite, best accuracy first."""
    from l4_mmodel.evaluation.reports import leader_board

    mmodel = open_layer(tenant)
    rows = leader_board(mmodel.reported.all(mmodel.tenant))
    line.show(
        rows, ("suite", "model", "accuracy", "low", "high", "n", "p50_ms", "equal_answers"), as_json=as_json
    )


@app.command()
def promote(
    ref: str,
    rule: Annotated[str, typer.Option(help="e.g. '>= baseline and p < 0.05 and p90_ms <= 300'")],
    baseline: Annotated[
        str | None, typer.Option(help="model to beat (default: the alias's present one)")
    ] = None,
    alias: Annotated[str, typer.Option(help="alias to move")] = "production",
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Point an alias to a version if its report fulfils a rule; exit code 1 if it does not."""
    result = open_layer(tenant).promote(ref, rule, baseline=baseline, alias=alias)
    rows = result.as_json()
    line.show(
        rows["verdicts"], ("condition", "found", "bound", "holds"), as_json=False
    ) if not as_json else line.show_json(rows)
    if not result.promoted:
        failed = "; ".join(verdict.condition for verdict in result.verdicts if not verdict.holds)
        raise Failed(f"{result.version} was not promoted", why=f"these conditions do not hold: {failed}")
    if not as_json:
        print(f"{result.version} is {result.alias} now")


def _evaluate_as_job(mmodel: Any, suite: Path, models: list[str]) -> None:
    from l4_mmodel.adapters.l2_aistation import AistationJobs

    chosen = [part for model in models for part in ("--model", model)]
    command = [sys.executable, "-m", "l4_mmodel.cli", "eval", str(suite.resolve()), *chosen, "--json"]
    settings = mmodel.settings
    environment = {
        "OGAI_HOME": str(settings.home.resolve()),
        "OGAI_L4_TENANT": mmodel.tenant,
        "OGAI_L4_DATABASE_URL": settings.database_url,
    }
    AistationJobs().run(f"evaluate-{suite.stem.lower()}", command, environment)


def _report(mmodel: Any, text: str, suite_digest: str | None = None) -> Any:
    from l4_mmodel.documents import EvalReport

    if Path(text).is_file():
        return EvalReport.read(Path(text))
    found = [report for _, report in mmodel.reports(text) if suite_digest in (None, report.suite_digest)]
    if not found:
        raise BadInput(f"{text} has no report on that suite", field="model", do="run `mmodel eval` first")
    return found[0]


def _metric_rows(reports: list[Any]) -> list[dict[str, Any]]:
    return [{"model": r.model_name, "metric": m.name, **m.model_dump()} for r in reports for m in r.metrics]


def _latency_rows(reports: list[Any]) -> list[dict[str, Any]]:
    return [
        {"model": r.model_name, "latency": row.name, **row.model_dump()} for r in reports for row in r.latency
    ]


def _show_comparison(name: str, rows: list[Any], *, as_json: bool) -> None:
    values = [{"model": name, **row.model_dump(mode="json", by_alias=True)} for row in rows]
    line.show(values, ("model", "task", "difference", "low", "high", "p_value", "test"), as_json=as_json)
