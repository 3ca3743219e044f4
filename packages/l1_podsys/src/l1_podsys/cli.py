"""The command line `podsys`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer
import yaml
from pydantic import BaseModel

from . import __version__
from ._kit import logs
from ._kit.command_line import add_config_command, err, new_app, out, run, show, show_json
from ._kit.documents import json_schema
from ._kit.files import atomic_write
from ._kit.problems import BadInput, NotFound
from .settings import Settings

app = new_app("Deploys the system environment of an AI cluster: plan, apply, verify, diagnose.")
add_config_command(app, Settings)
token_app = typer.Typer(help="Tokens for the REST interface and the pages.", no_args_is_help=True)
app.add_typer(token_app, name="token")

PLAN_FILE = Path(".podsys/plan.json")
JSON = typer.Option(False, "--json", help="print JSON")
EXIT_FAILED = 1
VERDICT_STYLE = {"pass": "green", "warn": "yellow", "fail": "red", "unknown": "magenta"}


def main() -> None:
    """Entry point."""
    logs.set_up(level="WARNING")
    run(app)


def service() -> Any:
    """The service with this machine's settings; imported only when a command needs it."""
    from .service import Podsys

    return Podsys(Settings.load())


def _version(value: bool) -> None:
    if value:
        print(__version__)
        raise typer.Exit


@app.callback()
def common(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="print the version"
    ),
) -> None:
    pass


@app.command("import")
def import_command(
    document: Path | None = typer.Argument(None, help="a node-inventory/v1 file"),
    out_file: Path = typer.Option(Path("inventory.yaml"), "--out", help="the inventory to write"),
    ssh_key: Path | None = typer.Option(None, "--ssh-key", help="private key that opens the nodes"),
    profile: str | None = typer.Option(None, "--profile", help="profile file, or a shipped profile's name"),
    cluster: str | None = typer.Option(None, "--cluster", help="the cluster's name (default: the tenant's)"),
    shared_path: str | None = typer.Option(None, "--shared-path", help="folder that all nodes share"),
    infra_os: bool = typer.Option(False, "--infra-os", help="ask l0-infra-os on this machine, no file"),
    tenant: str | None = typer.Option(None, "--tenant", help="with --infra-os: whose nodes"),
) -> None:
    """Make an inventory from a node-inventory document."""
    from .core.inventory import to_yaml

    options = {
        "ssh_key": str(ssh_key.resolve()) if ssh_key else None,
        "profile": str(Path(profile).resolve()) if profile and Path(profile).is_file() else profile,
        "cluster": cluster,
        "shared_path": shared_path,
    }
    if infra_os == (document is not None):
        raise BadInput("give a file, or --infra-os, and not both", field="document")
    if infra_os:
        from .adapters.l0_infra_os import InfraOsNodes

        inventory = service().import_nodes(InfraOsNodes().node_inventory(tenant), **options)
    else:
        inventory = service().import_nodes(document, **options)
    atomic_write(out_file, to_yaml(inventory))
    out.print(f"{out_file}: {len(inventory.hosts)} hosts of cluster {inventory.cluster}", markup=False)


@app.command()
def plan(
    inventory: Path = typer.Argument(Path("inventory.yaml"), help="inventory file"),
    out_file: Path = typer.Option(PLAN_FILE, "--out", help="the plan to write"),
    diff: bool = typer.Option(False, "--diff", help="show changed texts as unified diffs"),
    as_json: bool = JSON,
) -> None:
    """Ask every host and show how it differs from its profile.  Changes nothing."""
    from .backends.folders import dump

    with _progress(as_json) as say:
        made = service().plan(inventory, say=lambda host: say(f"facts of {host}"))
    atomic_write(out_file, dump(made.as_json()))
    if as_json:
        show_json(made.as_json() | {"digest": made.digest(), "changes": made.changes})
    else:
        _show_plan(made, diff)
        out.print(f"{made.changes} changes on {len(made.hosts)} hosts; written to {out_file}", markup=False)
        if made.changes:
            out.print("apply it with: podsys apply" + ("" if out_file == PLAN_FILE else f" {out_file}"))
    if made.unreachable:
        raise typer.Exit(3)


def _show_plan(made: Any, diff: bool) -> None:
    rows = [
        {
            "host": host.hostname,
            "role": change.role,
            "what": f"{change.resource.kind} {change.resource.name}",
            "before": change.before,
            "after": change.after,
        }
        for host in made.hosts
        for change in host.changes
    ]
    if rows:
        show(rows, ("host", "role", "what", "before", "after"), as_json=False)
    if diff:
        for host in made.hosts:
            for change in host.changes:
                if change.diff:
                    out.print(f"\n{host.hostname} {change.resource.name}\n{change.diff}", markup=False)
    notes = sorted({f"{host.hostname}: {note}" for host in made.hosts for note in host.notes})
    for note in notes[:10]:
        out.print(f"note: {note}", markup=False, style="dim")
    if len(notes) > 10:
        out.print(f"note: and {len(notes) - 10} more (see --json)", style="dim")
    for host in made.unreachable:
        err.print(f"{host.hostname}: {host.error}", markup=False)


@app.command()
def apply(
    plan_file: Path = typer.Argument(PLAN_FILE, metavar="[PLAN]", help="the plan that `podsys plan` wrote"),
    as_json: bool = JSON,
) -> None:
    """Apply a plan as it stands: only what differs is touched.  An interrupted run goes on."""

    def watch(host: str, role: str, event: str, detail: str) -> None:
        if not as_json:
            line = f"{host:20} {role:16} {event}{': ' + detail if detail else ''}"
            out.print(line, markup=False, soft_wrap=True, style="red" if event == "fail" else None)

    done = service().apply(plan_file, watch=watch)
    result = done.summary()
    if as_json:
        show_json(result | {"failures": done.failures()})
    else:
        out.print(
            f"{result['changed']} changed, {result['unchanged']} unchanged, {result['failed']} failed; "
            f"run {done.id}",
            markup=False,
        )
        for host in done.plan.unreachable:
            err.print(f"{host.hostname} was not reachable when the plan was made", markup=False)
    if result["state"] != "done":
        raise typer.Exit(EXIT_FAILED)


@app.command()
def verify(
    inventory: Path = typer.Argument(Path("inventory.yaml"), help="inventory file"),
    out_file: Path = typer.Option(
        Path("cluster-report.json"), "--out", help="the cluster-report/v1 to write"
    ),
    as_json: bool = JSON,
) -> None:
    """Measure each host and the network between them; write the cluster report.  Changes nothing."""
    with _progress(as_json) as say:
        report = service().verify(inventory, say=say)
    report.write(out_file)
    if as_json:
        show_json(report.as_json())
    else:
        _show_checks(report)
        out.print(f"written to {out_file}", markup=False)
    if any(check.verdict == "fail" for check in report.checks):
        raise typer.Exit(EXIT_FAILED)


def _show_checks(report: Any) -> None:
    rows = [
        check.model_dump() | {"between": f"{check.node or ''}{' - ' + check.peer if check.peer else ''}"}
        for check in report.checks
    ]
    show(rows, ("name", "between", "value", "unit", "expected", "verdict"), as_json=False)
    counts: dict[str, int] = {}
    for check in report.checks:
        counts[check.verdict] = counts.get(check.verdict, 0) + 1
    for verdict, count in sorted(counts.items()):
        out.print(f"{count} {verdict}", style=VERDICT_STYLE.get(verdict))


@app.command()
def report(cluster: str = typer.Argument(help="the cluster's name"), as_json: bool = JSON) -> None:
    """Show the newest report of a cluster."""
    found = service().report(cluster)
    if as_json:
        show_json(found.as_json())
    else:
        _show_checks(found)


@app.command()
def diagnose(
    files: list[Path] = typer.Argument(
        help="logs and outputs: dmesg, lspci -vvv, nvidia-smi -q, nccl-tests …; - is stdin"
    ),
    as_json: bool = JSON,
) -> None:
    """Find the field's named faults in logs and outputs of tools.  Exit code 1 when one is found."""
    from .service.texts import read_texts

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
    from .core.compatibility import Explanation, solve

    values = dict(_pair(word) for word in stack)
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
    with _progress(as_json) as say:
        folder, index = service().bundle(packages, out_folder, suite=suite, say=say)
    if as_json:
        show_json({"folder": str(folder), "debs": len(index.debs), "packages": sorted(index.closures)})
    else:
        out.print(f"{folder}: {len(index.debs)} packages, checksums are right", markup=False, soft_wrap=True)


@app.command()
def clusters(as_json: bool = JSON) -> None:
    """Clusters that were planned or verified on this machine."""
    rows = [cluster.summary() for cluster in service().clusters()]
    show(rows, ("cluster", "tenant", "hosts", "plan_changes", "last_run", "checks"), as_json=as_json)


@app.command()
def runs(as_json: bool = JSON) -> None:
    """Runs, newest first."""
    rows = [row.summary() for row in service().runs()]
    show(rows, ("id", "cluster", "started", "state", "changed", "unchanged", "failed"), as_json=as_json)


@app.command()
def forget(
    host: str = typer.Argument(help="host id"),
    inventory: Path = typer.Option(Path("inventory.yaml"), "--inventory", help="inventory file"),
) -> None:
    """Forget a host's SSH key, after the host was installed anew."""
    podsys = service()
    podsys.forget(podsys.inventory(inventory), host)
    out.print(f"the key of {host} is forgotten; the next contact accepts its new one", markup=False)


@app.command()
def schema(
    name: str | None = typer.Argument(None, help="cluster-report, inventory, profile or plan"),
) -> None:
    """Print JSON Schemas: of the document that this layer owns, and of its input files."""
    from .core.inventory import Inventory
    from .core.planning import Plan, Profile
    from .documents import ClusterReport

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

    from .web import create_app

    settings = Settings.load()
    web = create_app(settings)
    err.print(
        f"podsys on http://{host}:{port}/ (operator's token: {web.state.shell.tokens.admin_file})",
        markup=False,
    )
    uvicorn.run(web, host=host, port=port, log_level="warning")


def _tokens() -> Any:
    from ._kit.tokens import TokenStore

    return TokenStore(Settings.load().tokens_file)


@token_app.command("create")
def token_create(
    name: str = typer.Argument(help="the token's name"),
    tenant: str = typer.Option(..., "--tenant", help="whose things it sees"),
    role: str = typer.Option("user", "--role", help="user, or operator (sees all)"),
    as_json: bool = JSON,
) -> None:
    """Make a token; it is shown this once."""
    token = _tokens().create(name, tenant, role)
    show_json({"name": name, "token": token}) if as_json else print(token)


@token_app.command("list")
def token_list(as_json: bool = JSON) -> None:
    """Tokens, without their secrets."""
    rows = [{"name": row.name, "tenant": row.tenant, "role": row.role} for row in _tokens().rows()]
    show(rows, ("name", "tenant", "role"), as_json=as_json)


@token_app.command("revoke")
def token_revoke(name: str = typer.Argument(help="the token's name")) -> None:
    """Make a token invalid."""
    _tokens().revoke(name)


def _progress(quiet: bool) -> Any:
    """A context that shows what is being done on a terminal; silent for JSON and in pipes."""
    import contextlib
    from collections.abc import Callable, Iterator

    @contextlib.contextmanager
    def shown() -> Iterator[Callable[[str], None]]:
        if quiet or not sys.stderr.isatty():
            yield lambda _text: None
            return
        with err.status("starting") as status:
            yield status.update

    return shown()
