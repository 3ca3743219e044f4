"""`mmodel`: register | verify | eval | compare | promote | serve | keys | chat | models | …"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ._kit import command_line as line
from ._kit.documents import Document, json_schema
from ._kit.problems import BadInput, Failed
from ._kit.tokens import TokenStore
from .settings import Settings

app = line.new_app("Model management: register, verify, evaluate, promote and serve models.")
keys_app = typer.Typer(help="Keys of the OpenAI-compatible API.", no_args_is_help=True)
token_app = typer.Typer(help="Tokens of REST and pages.", no_args_is_help=True)
app.add_typer(keys_app, name="keys")
app.add_typer(token_app, name="token")
line.add_config_command(app, Settings)

Json = Annotated[bool, typer.Option("--json", help="print JSON")]
Tenant = Annotated[str | None, typer.Option("--tenant", help="act for this tenant")]
Parent = Annotated[int | None, typer.Option("--parent", hidden=True)]
COLUMNS = ("ref", "type", "format", "bytes", "aliases", "digest")


def _version(value: bool) -> None:
    if value:
        from . import __version__

        print(f"mmodel {__version__}")
        raise typer.Exit


@app.callback()
def root(
    _version_flag: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Model management."""


def _open(tenant: str | None = None) -> Any:
    from .service import Mmodel

    return Mmodel(Settings.load(tenant=tenant), by="command line")


@app.command()
def register(
    manifest: Annotated[Path, typer.Argument(help="a model-manifest/v1, or the folder with it")],
    name: Annotated[str | None, typer.Option(help="name in the registry (the manifest's)")] = None,
    alias: Annotated[str | None, typer.Option(help="alias to point to it")] = None,
    convert_to: Annotated[
        Path | None,
        typer.Option(help="de-quantise a GGUF file into this folder first (needs l4-mmodel[ylink])"),
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="NAME=VALUE; may be repeated")] = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Register a model: every digest verified, only safetensors and GGUF accepted."""
    if convert_to is not None:
        from .adapters.l3_ylink import YlinkModels

        manifest = YlinkModels().fetch(manifest, convert_to, name=name)
    with _progress(as_json) as advance:
        version = _open(tenant).register(
            manifest,
            name=name,
            alias=alias,
            tags=_tags(tag),
            progress=advance,
        )
    line.show([version.as_json()], COLUMNS, as_json=as_json)


@app.command()
def dataset(
    manifest: Annotated[Path, typer.Argument(help="a dataset-manifest/v1, or the folder with it")],
    name: Annotated[str | None, typer.Option(help="name in the registry (the manifest's)")] = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Register a data set: every digest verified."""
    mmodel = _open(tenant)
    found = mmodel.datasets.register(manifest, tenant=mmodel.tenant, by=mmodel.by, name=name)
    line.show([found.as_json()], ("ref", "rows", "bytes", "digest"), as_json=as_json)


@app.command()
def datasets(tenant: Tenant = None, as_json: Json = False) -> None:
    """List data sets."""
    mmodel = _open(tenant)
    rows = [found.as_json() for found in mmodel.datasets.all(mmodel.tenant)]
    line.show(rows, ("ref", "rows", "bytes", "digest"), as_json=as_json)


@app.command()
def models(
    name: Annotated[str | None, typer.Argument(help="show this model's versions")] = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """List models, or one model's versions."""
    mmodel = _open(tenant)
    if name is None:
        line.show(
            mmodel.registry.models(mmodel.tenant),
            ("name", "type", "newest", "versions", "bytes", "aliases"),
            as_json=as_json,
        )
    else:
        rows = [version.as_json() for version in mmodel.registry.all(mmodel.tenant, name)]
        line.show(rows, COLUMNS, as_json=as_json)


@app.command()
def verify(ref: str, tenant: Tenant = None, as_json: Json = False) -> None:
    """Re-read a version's files and check their digests."""
    line.show([_open(tenant).verify(ref).as_json()], COLUMNS, as_json=as_json)


@app.command()
def lineage(ref: str, tenant: Tenant = None, as_json: Json = False) -> None:
    """Show what a version was made from, and what was made of it."""
    graph = _open(tenant).lineage(ref).as_json()
    if as_json:
        line.show_json(graph)
        return
    labels = {node["digest"]: f"{node['kind']} {node['label']}" for node in graph["nodes"]}
    rows = [{"from": labels[e["from"]], "how": e["how"], "to": labels[e["to"]]} for e in graph["edges"]]
    line.show(rows, ("from", "how", "to"), as_json=False)


@app.command()
def alias(
    ref: str,
    name: Annotated[str, typer.Argument(help="the alias")],
    reason: Annotated[str, typer.Option(help="why, for its history")] = "",
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Point an alias to a version."""
    line.show([_open(tenant).alias(ref, name, reason=reason).as_json()], COLUMNS, as_json=as_json)


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
    _follow(parent)
    mmodel = _open(tenant)
    if runner == "aistation":
        _evaluate_as_job(mmodel, suite, model)  # what it measured is kept, and read here
    elif runner != "local":
        raise BadInput(f"{runner!r} is no runner", field="runner", do="use local or aistation")
    with _progress(as_json) as advance:
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
    mmodel = _open(tenant)
    ours = _report(mmodel, candidate)
    same = ours.suite_digest if not Path(baseline).is_file() else None
    rows = mmodel.compare(ours, _report(mmodel, baseline, same))
    _show_comparison(ours.model_name, rows, as_json=as_json)


@app.command()
def reports(tenant: Tenant = None, as_json: Json = False) -> None:
    """Show the leader board: models by suite, best accuracy first."""
    from .evaluation.reports import leader_board

    mmodel = _open(tenant)
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
    result = _open(tenant).promote(ref, rule, baseline=baseline, alias=alias)
    rows = result.as_json()
    line.show(
        rows["verdicts"], ("condition", "found", "bound", "holds"), as_json=False
    ) if not as_json else line.show_json(rows)
    if not result.promoted:
        failed = "; ".join(verdict.condition for verdict in result.verdicts if not verdict.holds)
        raise Failed(f"{result.version} was not promoted", why=f"these conditions do not hold: {failed}")
    if not as_json:
        print(f"{result.version} is {result.alias} now")


@app.command()
def serve(
    ref: Annotated[str | None, typer.Argument(help="model to deploy: NAME, NAME@3 or NAME@alias")] = None,
    host: Annotated[str | None, typer.Option(help="address to listen on")] = None,
    port: Annotated[int | None, typer.Option(help="port (0: a free one)")] = None,
    name: Annotated[str | None, typer.Option(help="name for clients (the model's)")] = None,
    tenant: Tenant = None,
    as_json: Json = False,
    parent: Parent = None,
) -> None:
    """Serve pages, REST and the OpenAI-compatible API; with a model, deploy it first."""
    import uvicorn

    from ._kit import logs
    from .serving.server import free_port
    from .web.app import FastPath, create_app, must_be_alone

    _follow(parent)
    logs.set_up()
    settings = Settings.load(host=host, port=port, tenant=tenant)
    port = settings.port or free_port(settings.host)
    must_be_alone(settings)
    url = f"http://{settings.host}:{port}"
    if ref is not None:
        mmodel = _open(tenant)
        deployment = mmodel.deploy(ref, name=name)
        if as_json:
            line.show_json(deployment.as_json())
        else:
            print(f"{deployment.name}: {url}/v1", flush=True)
    line.err.print(f"pages and REST: {url}   operator's token: {TokenStore(settings.tokens_file).admin_file}")
    TokenStore(settings.tokens_file).admin_token()
    config = uvicorn.Config(
        FastPath(create_app(settings, url=url)),
        host=settings.host,
        port=port,
        log_config=None,
        access_log=False,
        loop="uvloop",
        http="httptools",
        timeout_graceful_shutdown=int(settings.drain_s) + 1,
    )
    uvicorn.Server(config).run()


@app.command()
def deploy(
    ref: str,
    name: Annotated[str | None, typer.Option(help="name for clients (the model's)")] = None,
    url: Annotated[str | None, typer.Option(help="serve it through this OpenAI-compatible address")] = None,
    upstream_model: Annotated[str | None, typer.Option(help="the model's name there")] = None,
    key_file: Annotated[Path | None, typer.Option(help="file with the key for that address")] = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Ask for a version to be served; a running `mmodel serve` starts it."""
    mmodel = _open(tenant)
    if url is None:
        document = mmodel.deploy(ref, name=name)
    else:
        document = mmodel.deploy_url(ref, url, model=upstream_model or ref, name=name, key_file=key_file)
    line.show_json(document.as_json()) if as_json else print(f"{document.name}: {document.state}")


@app.command()
def deployments(tenant: Tenant = None, as_json: Json = False) -> None:
    """List deployments."""
    mmodel = _open(tenant)
    rows = [row.as_json() for row in mmodel.deployed.all(mmodel.tenant)]
    line.show(rows, ("name", "model", "version", "runtime", "state", "url", "detail"), as_json=as_json)


@app.command()
def stop(name: str, tenant: Tenant = None) -> None:
    """End a deployment after the requests under way."""
    _open(tenant).stop(name)


@app.command()
def delete(ref: str, tenant: Tenant = None) -> None:
    """Remove a version that nothing refers to."""
    _open(tenant).delete(ref)


@app.command()
def gc(
    dry_run: Annotated[bool, typer.Option(help="only say what would go")] = False,
    as_json: Json = False,
) -> None:
    """Remove stored content that no version and no data set refers to."""
    gone = _open().collect(dry_run=dry_run)
    rows = [{"tenant": tenant, "digest": digest, "bytes": size} for tenant, digest, size in gone]
    line.show(rows, ("tenant", "digest", "bytes"), as_json=as_json)


@app.command()
def audit(tenant: Tenant = None, as_json: Json = False) -> None:
    """Show who did what, newest first; fails if the chain of rows is broken."""
    mmodel = _open(tenant)
    line.show(mmodel.store.audit_rows(mmodel.tenant), ("id", "at", "by", "action", "target"), as_json=as_json)
    broken = mmodel.store.broken_audit_row()
    if broken is not None:
        raise Failed(f"audit row {broken} was changed, or one before it was taken out")


@app.command()
def chat(
    model: Annotated[str, typer.Argument(help="name of a deployment")],
    key_file: Annotated[
        Path | None, typer.Option(help="file with the key (default: $OPENAI_API_KEY)")
    ] = None,
    url: Annotated[str | None, typer.Option(help="base URL (default: the deployment's)")] = None,
    message: Annotated[str | None, typer.Option(help="ask this and end")] = None,
    tenant: Tenant = None,
) -> None:
    """Talk to a deployment, line by line."""
    from .chat import talk

    key = key_file.read_text("utf-8").strip() if key_file else os.environ.get("OPENAI_API_KEY", "")
    if not key:
        raise BadInput("no key", field="key_file", do="give --key-file, or set OPENAI_API_KEY")
    talk(url or _open(tenant).deployment(model).endpoint.url, model, key, message)


@app.command()
def schema(name: Annotated[str | None, typer.Argument(help="eval-report or deployment")] = None) -> None:
    """Print the JSON Schema of a document."""
    from .documents import Deployment, EvalReport

    documents: dict[str, type[Document]] = {"eval-report": EvalReport, "deployment": Deployment}
    if name is not None and name not in documents:
        raise BadInput(
            f"{name!r} is not a document of this layer", field="name", do=f"use {', '.join(documents)}"
        )
    for key, document in documents.items():
        if name in (None, key):
            print(json_schema(document), end="")


@keys_app.command("create")
def keys_create(  # noqa: PLR0917
    name: str,
    model: Annotated[list[str] | None, typer.Option(help="only this deployment; may be repeated")] = None,
    scope: Annotated[
        list[str] | None, typer.Option(help="chat, completions or models; may be repeated")
    ] = None,
    requests_per_minute: Annotated[int | None, typer.Option(help="limit")] = None,
    tokens_per_minute: Annotated[int | None, typer.Option(help="limit")] = None,
    parallel: Annotated[int | None, typer.Option(help="requests at once")] = None,
    lifetime_s: Annotated[float | None, typer.Option(help="seconds until it expires")] = None,
    out: Annotated[Path | None, typer.Option(help="write the key to this file (mode 600)")] = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Make a key; it can be read only now."""
    from ._kit.files import atomic_write
    from .security.keys import SCOPES

    made = _open(tenant).keys.create(
        name, scopes=scope or SCOPES, models=model, requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute, parallel=parallel, lifetime_s=lifetime_s,
    )  # fmt: skip
    if out is not None:
        atomic_write(out, made.secret + "\n", mode=0o600)
    elif as_json:
        line.show_json({"name": name, "key": made.secret})
    else:
        print(made.secret)


@keys_app.command("list")
def keys_list(tenant: Tenant = None, as_json: Json = False) -> None:
    """List keys, without the keys themselves."""
    rows = [key.as_json() for key in _open(tenant).keys.all()]
    columns = (
        "name",
        "hint",
        "scopes",
        "models",
        "requests_per_minute",
        "tokens_per_minute",
        "expires_at",
        "revoked_at",
    )
    line.show(rows, columns, as_json=as_json)


@keys_app.command("revoke")
def keys_revoke(name: str, tenant: Tenant = None) -> None:
    """End a key."""
    _open(tenant).keys.revoke(name)


@token_app.command("create")
def token_create(
    name: str,
    tenant: Annotated[str, typer.Option(help="whose things it sees")] = "default",
    role: Annotated[str, typer.Option(help="user or operator")] = "user",
    lifetime_s: Annotated[float | None, typer.Option(help="seconds until it expires")] = None,
) -> None:
    """Make a token; it can be read only now."""
    print(TokenStore(Settings.load().tokens_file).create(name, tenant, role, lifetime_s=lifetime_s))


@token_app.command("list")
def token_list(as_json: Json = False) -> None:
    """List tokens, without the tokens themselves."""
    rows = [
        {"name": r.name, "tenant": r.tenant, "role": r.role, "expires": r.expires}
        for r in TokenStore(Settings.load().tokens_file).rows()
    ]
    line.show(rows, ("name", "tenant", "role", "expires"), as_json=as_json)


@token_app.command("revoke")
def token_revoke(name: str) -> None:
    """End a token."""
    TokenStore(Settings.load().tokens_file).revoke(name)


def _follow(parent: int | None) -> None:
    """Started by a program of ours: end when it ends, however it does."""
    if parent is not None:
        from .serving.runtimes.supervised import die_with_parent

        die_with_parent(parent)


def _evaluate_as_job(mmodel: Any, suite: Path, models: list[str]) -> None:
    from .adapters.l2_aistation import AistationJobs

    chosen = [part for model in models for part in ("--model", model)]
    command = [sys.executable, "-m", "l4_mmodel.cli", "eval", str(suite.resolve()), *chosen, "--json"]
    settings = mmodel.settings
    environment = {
        "OGAI_HOME": str(settings.home.resolve()),
        "OGAI_L4_TENANT": mmodel.tenant,
        "OGAI_L4_DATABASE_URL": settings.database_url,
    }
    AistationJobs().run(f"evaluate-{suite.stem.lower()}", command, environment)


def _tags(pairs: list[str] | None) -> dict[str, str]:
    found = dict(pair.partition("=")[::2] for pair in pairs or ())
    if not all(found):
        raise BadInput("must be NAME=VALUE", field="tag")
    return found


class _progress:  # noqa: N801 (used as a function)
    """A progress bar on stderr; nothing with --json or without a terminal."""

    def __init__(self, quiet: bool) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.bar = Progress(
            *columns, console=line.err, transient=True, disable=quiet or not sys.stderr.isatty()
        )

    def __enter__(self) -> Any:
        self.bar.start()
        task = self.bar.add_task("", total=None)
        return lambda what, done, total: self.bar.update(task, description=what, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        self.bar.stop()


def _report(mmodel: Any, text: str, suite_digest: str | None = None) -> Any:
    from .documents import EvalReport

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


def main() -> None:
    """The entry point."""
    line.run(app)


if __name__ == "__main__":
    main()
