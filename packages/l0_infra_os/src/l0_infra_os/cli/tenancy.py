"""Commands about tenants and leases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from l0_infra_os._kit.command_line import err, out, show, show_json

from .common import LEASE_COLUMNS, Json, Progress, read_keys, site

Lease = typer.Argument(help="the lease's id", metavar="LEASE")
tenant_app = typer.Typer(help="Tenants and their quota.", no_args_is_help=True)


def add(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(tenant_app, name="tenant")
    for command in (lease, leases, provision, grow, shrink, release, inventory, meter, audit):
        app.command()(command)


@tenant_app.command("add")
def tenant_add(
    name: str = typer.Argument(help="a-z, 0-9 and '-'"),
    quota: int = typer.Option(None, "--quota", help="most nodes that it may hold; none: no limit"),
) -> None:
    """Make a tenant, or set its quota."""
    with site() as infra:
        infra.create_tenant(name, quota_nodes=quota)
    out.print(f"tenant {name}", markup=False)


@tenant_app.command("list")
def tenant_list(as_json: bool = Json) -> None:
    """List tenants."""
    with site() as infra:
        show(infra.tenants(), ("name", "held_nodes", "quota_nodes", "segments"), as_json=as_json)


@tenant_app.command("remove")
def tenant_remove(name: str) -> None:
    """Remove a tenant that holds nothing."""
    with site() as infra:
        infra.remove_tenant(name)
    out.print(f"tenant {name} removed", markup=False)


def lease(
    tenant: str = typer.Argument(help="for whom"),
    nodes: int = typer.Option(..., "--nodes", help="how many members"),
    spares: int = typer.Option(0, "--spares", help="how many spares beside them"),
    flavor: str = typer.Option(None, "--flavor", help="only nodes of this flavor"),
    as_json: bool = Json,
) -> None:
    """Set nodes aside: under as few leaf switches as can be, all or none."""
    with site() as infra:
        row = infra.lease(tenant, nodes=nodes, spares=spares, flavor=flavor)
    show([row.as_row()], LEASE_COLUMNS, as_json=as_json)
    if not as_json:
        err.print(f"next: infra-os provision {row.id} --image NAME --ssh-key FILE.pub", markup=False)


def leases(
    ended: bool = typer.Option(False, "--ended", help="also those that ended"), as_json: bool = Json
) -> None:
    """List leases."""
    with site() as infra:
        show([row.as_row() for row in infra.leases(ended=ended)], LEASE_COLUMNS, as_json=as_json)


def provision(
    lease_id: str = Lease,
    image: str = typer.Option(..., "--image", help="name or digest of an image"),
    ssh_key: list[Path] = typer.Option([], "--ssh-key", help="file with public keys for root"),
    plan: bool = typer.Option(False, "--plan", help="only say what would be done"),
    as_json: bool = Json,
) -> None:
    """Image, connect and boot the nodes of a lease."""
    keys = read_keys(ssh_key)
    with site() as infra:
        if plan:
            rows = infra.plan_provision(lease_id, image=image)
            show_json(rows) if as_json else _show_plan(rows, image)
            return
        with Progress(quiet=as_json) as progress:
            row = infra.provision(lease_id, image=image, ssh_keys=keys, progress=progress)
    show([row.as_row()], LEASE_COLUMNS, as_json=as_json)


def _show_plan(rows: list[dict[str, Any]], image: str) -> None:
    """The nodes in a table, then the steps: once for all nodes that take the same ones."""
    short = [{**row, "addresses": list(row["addresses"].values()), "image": image} for row in rows]
    show(short, ("node", "role", "state", "image", "addresses"), as_json=False)
    by_steps: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        by_steps.setdefault(tuple(row["steps"]), []).append(row["node"])
    for steps, names in by_steps.items():
        out.print(f"\n{', '.join(names)}: " + ("" if steps else "nothing to do"), markup=False)
        for number, step in enumerate(steps, 1):
            out.print(f"  {number}. {step}", markup=False, soft_wrap=True)


def grow(
    lease_id: str = Lease,
    nodes: int = typer.Option(..., "--nodes", help="how many more"),
    as_json: bool = Json,
) -> None:
    """Add nodes to a lease; `provision` brings them up."""
    with site() as infra:
        infra.grow(lease_id, nodes=nodes)
        show([infra.lease_of(lease_id).as_row()], LEASE_COLUMNS, as_json=as_json)


def shrink(
    lease_id: str = Lease,
    nodes: list[str] = typer.Argument(help="the nodes that leave"),
    as_json: bool = Json,
) -> None:
    """Give some nodes of a lease back, isolated and erased."""
    with site() as infra:
        infra.shrink(lease_id, nodes)
        show([infra.lease_of(lease_id).as_row()], LEASE_COLUMNS, as_json=as_json)


def release(
    lease_id: str = Lease,
    timeout: float = typer.Option(None, "--timeout", help="seconds to wait at most; none: until it is done"),
    as_json: bool = Json,
) -> None:
    """Give a lease back: its nodes are isolated, then erased, then available."""
    with site() as infra, Progress(quiet=as_json) as progress:
        row = infra.release(lease_id, timeout_s=timeout, progress=progress)
    show([row.as_row()], LEASE_COLUMNS, as_json=as_json)


def inventory(
    tenant: str = typer.Option(None, "--tenant", help="of this tenant; none: the whole site"),
    file: Path = typer.Option(None, "--out", help="write the document here"),
) -> None:
    """Write node-inventory/v1, or print it."""
    with site() as infra:
        document = infra.inventory(tenant)
    if file is None:
        show_json(document.as_json())
        return
    digest = document.write(file)
    out.print(f"{file}: {len(document.nodes)} nodes, {digest}", markup=False, soft_wrap=True)


def meter(
    since: float = typer.Option(0.0, "--since", help="seconds since 1970"),
    until: float = typer.Option(None, "--until", help="seconds since 1970; none: now"),
    as_json: bool = Json,
) -> None:
    """Node-seconds by tenant and state."""
    with site() as infra:
        columns = ("tenant", "state", "node_seconds", "node_hours", "charged")
        show(infra.meter(since=since, until=until), columns, as_json=as_json)


def audit(
    last: int = typer.Option(50, "--last", min=1, max=10_000, help="how many rows"), as_json: bool = Json
) -> None:
    """Who did what."""
    with site() as infra:
        show(infra.audit(last=last), ("at", "actor", "verb", "subject", "tenant", "detail"), as_json=as_json)
