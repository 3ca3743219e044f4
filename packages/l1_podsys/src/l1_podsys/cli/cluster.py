"""Commands that work on a cluster: import, plan, apply, verify, report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from l1_podsys._kit.command_line import err, out, show, show_json
from l1_podsys._kit.files import atomic_write
from l1_podsys._kit.problems import BadInput

from .common import EXIT_FAILED, JSON, app, progress, service

PLAN_FILE = Path(".podsys/plan.json")
MOST_NOTES = 6
SHOWN_EVENTS = ("start", "done", "fail", "resume")
VERDICT_STYLE = {"pass": "green", "warn": "yellow", "fail": "red", "unknown": "magenta"}


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
    from l1_podsys.core.inventory import to_yaml

    options = {
        "ssh_key": str(ssh_key.resolve()) if ssh_key else None,
        "profile": str(Path(profile).resolve()) if profile and Path(profile).is_file() else profile,
        "cluster": cluster,
        "shared_path": shared_path,
    }
    if infra_os is (document is not None):
        raise BadInput("give a file, or --infra-os, and not both", field="document")
    if document is None:
        from l1_podsys.adapters.l0_infra_os import InfraOsNodes

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
    from l1_podsys.backends.folders import dump

    with progress(quiet=as_json) as say:
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
    _show_notes(made)
    for host in made.unreachable:
        err.print(f"{host.hostname}: {host.error}", markup=False)


def _show_notes(made: Any) -> None:
    """What cannot be changed on a host, each note once."""
    notes: dict[str, list[str]] = {}
    for host in made.hosts:
        for note in host.notes:
            notes.setdefault(note, []).append(host.hostname)
    for note, names in sorted(notes.items())[:MOST_NOTES]:
        where = names[0] if len(names) == 1 else f"{len(names)} hosts"
        out.print(f"note: {where}: {note}", markup=False, style="dim")
    if len(notes) > MOST_NOTES:
        out.print(f"note: and {len(notes) - MOST_NOTES} more (see --json)", style="dim")


@app.command()
def apply(
    plan_file: Path = typer.Argument(PLAN_FILE, metavar="[PLAN]", help="the plan that `podsys plan` wrote"),
    as_json: bool = JSON,
) -> None:
    """Apply a plan as it stands: only what differs is touched.  An interrupted run goes on."""

    def watch(host: str, role: str, event: str, detail: str) -> None:
        if not as_json and event in SHOWN_EVENTS:
            line = f"{host:20} {role:16} {event}{': ' + detail if detail else ''}"
            out.print(line, markup=False, soft_wrap=True, style="red" if event == "fail" else None)

    if plan_file == PLAN_FILE and not plan_file.exists():
        raise BadInput(
            "there is no plan here", field=str(plan_file), do="make one: podsys plan inventory.yaml"
        )
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
    with progress(quiet=as_json) as say:
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
    from l1_podsys.core.acceptance import figure

    rows = [
        check.model_dump()
        | {
            "value": figure(check.value) if isinstance(check.value, float) else check.value,
            "host": f"{check.node or ''}{' - ' + check.peer if check.peer else ''}",
        }
        for check in report.checks
    ]
    show(rows, ("name", "host", "value", "unit", "expected", "verdict"), as_json=False)
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
def clusters(as_json: bool = JSON) -> None:
    """Clusters that were planned or verified on this machine."""
    rows = [cluster.summary() for cluster in service().clusters()]
    show(
        rows,
        ("cluster", "tenant", "hosts", "plan_changes", "plan_applied", "last_run", "checks"),
        as_json=as_json,
    )


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
