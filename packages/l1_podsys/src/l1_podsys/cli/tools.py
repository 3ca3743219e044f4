"""Commands that need no cluster: diagnose, compat, bundle, schema, serve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
import yaml
from pydantic import BaseModel

from l1_podsys._kit.command_line import err, out, show, show_json
from l1_podsys._kit.documents import json_schema
from l1_podsys._kit.problems import BadInput, NotFound
from l1_podsys.settings import Settings

from .common import EXIT_FAILED, JSON, app, progress, service


@app.command()
def diagnose(
    files: list[Path] = typer.Argument(
        help="logs and outputs: dmesg, lspci -vvv, nvidia-smi -q, nccl-tests …; - is stdin"
    ),
    as_json: bool = JSON,
) -> None:
    """Find the field's named faults in logs and outputs of tools.  Exit code 1 when one is found."""
    from l1_podsys.service.texts import read_texts

    findings = service().diagnose(read_texts(files))
    if as_json:
        show_json([finding.model_dump() for finding in findings])
    else:
        for finding in findings:
            _show_finding(finding)
        if not findings:
            out.print("no known fault found")
    if findings:
        raise typer.Exit(EXIT_FAILED)


def _show_finding(finding: Any) -> None:
    out.print(f"{finding.title}  [{finding.fault}, {finding.confidence:.0%}]", style="bold", markup=False)
    out.print(f"  cause: {finding.cause}", markup=False)
    out.print(f"  fix:   {finding.fix}", markup=False)
    if finding.gain:
        out.print(f"  gain:  {finding.gain}", markup=False)
    for row in finding.evidence:
        out.print(f"  {row.file}:{row.line}: {row.text}", markup=False, style="dim", soft_wrap=True)


@app.command()
def compat(
    stack: list[str] = typer.Argument(help="component=version, as driver=580.65.06 cuda=13.0 gpu=hopper"),
    as_json: bool = JSON,
) -> None:
    """Complete a software stack from the known-good table, or name the facts that do not fit."""
    from l1_podsys.core.compatibility import Explanation, solve

    values: dict[str, str] = {}
    for name, value in map(_pair, stack):
        if values.setdefault(name, value) != value:
            raise BadInput(f"is given twice: {values[name]} and {value}", field=name, do="keep one of them")
    answer = solve(values)
    if isinstance(answer, Explanation):
        if as_json:
            show_json({"fits": False, "conflict": answer.facts, "rules": answer.rules})
        else:
            out.print(f"does not fit: {answer}", markup=False)
        raise typer.Exit(EXIT_FAILED)
    if as_json:
        show_json({"fits": True, "stack": answer})
    else:
        rows = [
            {"component": k, "version": v, "from": "given" if k in values else "table"}
            for k, v in answer.items()
        ]
        show(rows, ("component", "version", "from"), as_json=False)


def _pair(word: str) -> tuple[str, str]:
    name, sign, value = word.partition("=")
    if not sign or not value:
        raise BadInput(f"{word!r} is not component=version", field="stack")
    return name, value


@app.command()
def bundle(
    packages: list[str] = typer.Option(
        ["prometheus-node-exporter"], "--package", help="Debian package; repeat it"
    ),
    suite: str = typer.Option("bookworm", "--suite", help="Debian release of the hosts"),
    out_folder: Path | None = typer.Option(None, "--out", help="folder (default: in the cache)"),
    as_json: bool = JSON,
) -> None:
    """Make an offline bundle of packages with all that they need, or check the one that is there."""
    with progress(quiet=as_json) as say:
        folder, index = service().bundle(packages, out_folder, suite=suite, say=say)
    if as_json:
        show_json({"folder": str(folder), "debs": len(index.debs), "packages": sorted(index.closures)})
    else:
        out.print(f"{folder}: {len(index.debs)} packages, checksums are right", markup=False, soft_wrap=True)


@app.command()
def schema(
    name: str | None = typer.Argument(None, help="cluster-report, inventory, profile or plan"),
) -> None:
    """Print JSON Schemas: of the document that this layer owns, and of its input files."""
    from l1_podsys.core.inventory import Inventory
    from l1_podsys.core.planning import Plan, Profile
    from l1_podsys.documents import ClusterReport

    models: dict[str, type[BaseModel]] = {
        "cluster-report": ClusterReport,
        "inventory": Inventory,
        "profile": Profile,
        "plan": Plan,
    }
    if name is None:
        show_json({key: yaml.safe_load(json_schema(model)) for key, model in models.items()})
    elif name in models:
        print(json_schema(models[name]), end="")
    else:
        raise NotFound(f"no schema {name!r}", do=f"use one of: {', '.join(models)}")


@app.command()
def serve(
    host: str = typer.Option("127.0.0.1", "--host", help="address to listen on"),
    port: int = typer.Option(8471, "--port", help="port to listen on", min=0, max=65535),
) -> None:
    """Serve the REST interface and the pages."""
    import uvicorn

    from l1_podsys.web import create_app

    settings = Settings.load()
    web = create_app(settings)
    err.print(
        f"podsys on http://{host}:{port}/ (operator's token: {web.state.shell.tokens.admin_file})",
        markup=False,
    )
    uvicorn.run(web, host=host, port=port, log_level="warning")
