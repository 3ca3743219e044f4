"""Commands about nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer
import yaml

from l0_infra_os._kit.command_line import err, out, show, show_json
from l0_infra_os._kit.problems import BadInput, Failed

from .common import NODE_COLUMNS, Json, Progress, site

if TYPE_CHECKING:
    from l0_infra_os.service.enrolment import Declared

Node = typer.Argument(help="the node's id", metavar="NODE")


def add(app: typer.Typer) -> None:
    """Adds the commands."""
    for command in (enroll, inspect, nodes, node, power, quarantine, repair, forget):
        app.command()(command)


def enroll(
    addresses: list[str] = typer.Argument(None, help="ranges: 10.0.0.0/24, host:8101-8105, …"),
    username: str = typer.Option(..., "--username", "-u", help="user of the BMCs"),
    password_file: Path = typer.Option(..., "--password-file", help="file with the password"),
    file: Path = typer.Option(None, "--file", help="YAML list of machines: bmc, name, macs, rack, leaf"),
    as_json: bool = Json,
) -> None:
    """Take machines in by the addresses of their BMCs: all that answer, or none."""
    declared = _machines(file) if file else []
    with site() as infra:
        done = infra.enroll(
            addresses or [], username=username, password_file=password_file, declared=declared
        )
    if as_json:
        show_json(vars(done))
        return
    out.print(f"enrolled {len(done.new)}: {', '.join(done.new) or 'none'}", markup=False)
    if done.known:
        out.print(f"known before: {', '.join(done.known)}", markup=False)
    if done.silent:
        out.print(f"no BMC at {len(done.silent)} addresses", markup=False)
    if done.new:
        err.print("next: infra-os inspect", markup=False)


def _machines(path: Path) -> list[Declared]:
    """The declared machines of a file; a `BadInput` names the row at fault."""
    from l0_infra_os.service.enrolment import Declared

    try:
        rows = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise BadInput(f"cannot be read: {error}", field=str(path)) from error
    if not isinstance(rows, list) or not rows:
        raise BadInput("is not a list of machines", field=str(path), do="start each with '- bmc: ADDRESS'")
    machines = []
    for number, row in enumerate(rows):
        where = f"{path}[{number}]"
        if not isinstance(row, dict) or not isinstance(row.get("bmc"), str):
            raise BadInput("has no bmc", field=where)
        if unknown := sorted(map(str, set(row) - {"bmc", "name", "macs", "rack", "leaf"})):
            raise BadInput(f"has unknown fields: {', '.join(unknown)}", field=where)
        macs = row.get("macs") or []
        if not isinstance(macs, list) or not all(isinstance(mac, str) for mac in macs):
            raise BadInput("macs is not a list of texts", field=where, do="quote each MAC")
        name, leaf, rack = (row.get(key) or "" for key in ("name", "leaf", "rack"))
        if not all(isinstance(value, str) for value in (name, leaf, rack)):
            raise BadInput("name, leaf or rack is not a text", field=where, do="quote it")
        machines.append(Declared(row["bmc"], name, tuple(macs), leaf, rack))
    return machines


def inspect(
    node_ids: list[str] = typer.Argument(None, help="nodes; all that never were inspected if none"),
    as_json: bool = Json,
) -> None:
    """Boot nodes into the agent that reports what they have."""
    with site() as infra, Progress(quiet=as_json) as progress:
        rows = infra.inspect(node_ids or None, progress=progress)
    show([row.as_row() for row in rows], NODE_COLUMNS, as_json=as_json)
    if bad := [row for row in rows if row.state != "available"]:
        names = ", ".join(row.id for row in bad)
        raise Failed(f"not available: {names}", why=bad[0].problem or "", do=f"infra-os repair {bad[0].id}")


def nodes(
    tenant: str = typer.Option(None, "--tenant", help="only those that it holds"), as_json: bool = Json
) -> None:
    """List nodes."""
    with site() as infra:
        show([row.as_row() for row in infra.nodes(tenant=tenant)], NODE_COLUMNS, as_json=as_json)


def node(node_id: str = Node, as_json: bool = Json) -> None:
    """Show one node: facts, ports, timeline."""
    with site() as infra:
        row, timeline = infra.node(node_id), infra.timeline(node_id)
    if as_json:
        show_json({**row, "timeline": timeline})
        return
    simple = {name: value for name, value in row.items() if name not in ("facts", "ports") and value}
    show(
        [{"field": name, "value": value} for name, value in simple.items()], ("field", "value"), as_json=False
    )
    show(row["ports"], ("name", "mac", "segment", "link_gbps", "observed"), as_json=False, title="\nports")
    columns = ("start", "state", "event", "tenant", "seconds", "cause")
    show(timeline, columns, as_json=False, title="\ntimeline")


def power(
    node_id: str = Node,
    action: str = typer.Argument(help="on, off or cycle"),
    as_json: bool = Json,
) -> None:
    """Switch a node through its BMC."""
    with site() as infra:
        seen = infra.power(node_id, action)  # type: ignore[arg-type]
    show([{"node": node_id, "power": seen}], ("node", "power"), as_json=as_json)


def quarantine(
    node_id: str = Node, reason: str = typer.Option(..., "--reason", help="what is wrong with it")
) -> None:
    """Take a faulty node out of service; another takes its place if one is free."""
    with site() as infra:
        replacement = infra.quarantine(node_id, reason=reason)
    out.print(f"{node_id} quarantined" + (f"; {replacement} took its place" if replacement else ""))


def repair(node_id: str = Node) -> None:
    """Bring a quarantined node back: isolated, erased, available."""
    with site() as infra:
        infra.repair(node_id)
        row = infra.node(node_id)
    out.print(f"{node_id} is {row['state']}", markup=False)
    if row["state"] != "available":
        raise Failed(f"{node_id} was not repaired", why=row["problem"] or "")


def forget(node_id: str = Node) -> None:
    """Remove a node from the site."""
    with site() as infra:
        infra.forget(node_id)
    out.print(f"{node_id} forgotten", markup=False)
