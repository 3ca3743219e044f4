"""Commands of an operator: pool, tokens, broker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from l2_aistation._kit.command_line import new_app, out, show, show_json
from l2_aistation._kit.documents import read_json
from l2_aistation._kit.tokens import TokenStore
from l2_aistation.settings import Settings

from .common import AsJson, Url, app, client

pool_app = new_app("The pool: its nodes and where it comes from.")
token_app = new_app("Who may call: bearer tokens with a tenant and a role.")
broker_app = new_app("The private broker that agents connect to.")
app.add_typer(pool_app, name="pool")
app.add_typer(token_app, name="token")
app.add_typer(broker_app, name="broker")


@pool_app.command("show")
def pool_show(url: Url = None, as_json: AsJson = False) -> None:
    """Show the pool's nodes."""
    with client(url) as aistation:
        view = aistation.pool()
    if as_json:
        show_json(view)
        return
    rows = [
        {
            **node,
            "accelerators": f"{sum(item['job'] is None for item in node['accelerators'])}"
            f"/{len(node['accelerators'])}",
            "cpu_cores": f"{node['cpu_cores_free']:g}/{node['cpu_cores']}",
            "jobs": [item["job"] for item in node["jobs"]],
        }
        for node in view["nodes"]
    ]
    title = (
        f"{view['cluster']}: {len(rows)} nodes, {view['accelerators_free']} of {view['accelerators']} free"
    )
    columns = ("id", "state", "leaf", "spine", "accelerators", "cpu_cores", "engine", "jobs", "reason")
    show(rows, columns, as_json=False, title=title)


@pool_app.command("import")
def pool_import(
    report: Annotated[Path, typer.Argument(help="a cluster-report/v1")],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Take the cluster of L1's cluster-report in as the pool."""
    with client(url) as aistation:
        answer = aistation.import_pool(read_json(report))
    if as_json:
        show_json(answer)
    else:
        out.print(f"pool {answer['cluster']}: {answer['nodes']} nodes")


@pool_app.command("cordon")
def pool_cordon(
    node: Annotated[str, typer.Argument(help="the node's id")],
    reason: Annotated[str, typer.Option(help="why, for people")] = "",
    url: Url = None,
) -> None:
    """Keep new tasks off a node; what runs there goes on."""
    with client(url) as aistation:
        aistation.cordon(node, reason)


@pool_app.command("uncordon")
def pool_uncordon(node: Annotated[str, typer.Argument(help="the node's id")], url: Url = None) -> None:
    """Let tasks onto a node again."""
    with client(url) as aistation:
        aistation.uncordon(node)


@token_app.command("create")
def token_create(
    name: Annotated[str, typer.Argument(help="the token's name")],
    tenant: Annotated[str, typer.Option(help="whose things it sees")],
    role: Annotated[str, typer.Option(help="user, owner (of queues) or operator")] = "user",
    queue: Annotated[list[str] | None, typer.Option(help="a queue that an owner looks after")] = None,
    lifetime_s: Annotated[float | None, typer.Option(help="seconds until it expires")] = None,
) -> None:
    """Make a token and print it: the only time that it can be read."""
    store = TokenStore(Settings.load().tokens_file)
    print(store.create(name, tenant, role, lifetime_s=lifetime_s, queues=queue or ()))


@token_app.command("list")
def token_list(as_json: AsJson = False) -> None:
    """List tokens."""
    columns = ("name", "tenant", "role", "queues", "expires")
    rows = [
        {
            "name": row.name,
            "tenant": row.tenant,
            "role": row.role,
            "queues": list(row.queues),
            "expires": row.expires,
        }
        for row in TokenStore(Settings.load().tokens_file).rows()
    ]
    show(rows, columns, as_json=as_json)


@token_app.command("revoke")
def token_revoke(name: Annotated[str, typer.Argument(help="the token's name")]) -> None:
    """Make a token invalid."""
    TokenStore(Settings.load().tokens_file).revoke(name)


@broker_app.command("url")
def broker_url() -> None:
    """Print the URL (with its password) that agents need as OGAI_L2_BROKER_URL."""
    from l2_aistation.broker import url_for_agents

    print(url_for_agents(Settings.load()))
