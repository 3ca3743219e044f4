"""`infra-os serve`, tokens and schemas."""

from __future__ import annotations

import time

import typer

from l0_infra_os._kit import logs
from l0_infra_os._kit.command_line import err, out, show
from l0_infra_os._kit.documents import json_schema
from l0_infra_os._kit.problems import NotFound
from l0_infra_os._kit.tokens import TokenStore
from l0_infra_os.documents import NodeInventory
from l0_infra_os.settings import Settings

from .common import Json

token_app = typer.Typer(help="Tokens of the REST API and the pages.", no_args_is_help=True)
DOCUMENTS = {"node-inventory": NodeInventory}


def add(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(token_app, name="token")
    app.command()(serve)
    app.command()(schema)


def serve(
    host: str = typer.Option("127.0.0.1", "--host", help="address of the REST API and the pages"),
    port: int = typer.Option(8470, "--port", help="their port", min=0, max=65535),
    json_logs: bool = typer.Option(False, "--json-logs", help="log in JSON"),
) -> None:
    """Run the service: REST, pages, network boot, and the carrying on of nodes."""
    import uvicorn

    from l0_infra_os.web.app import create_app

    logs.set_up(as_json=json_logs)
    settings = Settings.load()
    admin_file = TokenStore(settings.tokens_file).admin_file
    TokenStore(settings.tokens_file).admin_token()
    err.print(f"infra-os: http://{host}:{port}/ (operator's token in {admin_file})", markup=False)
    uvicorn.run(
        create_app(settings),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=3,
    )


@token_app.command("create")
def token_create(
    name: str = typer.Argument(help="what the token is called in the audit log"),
    tenant: str = typer.Option(..., "--tenant", help="whose things it sees"),
    role: str = typer.Option("user", "--role", help="user or operator"),
    days: float = typer.Option(None, "--days", help="how long it is valid; none: until revoked"),
) -> None:
    """Make a token and print it: the only time that it can be read."""
    lifetime_s = None if days is None else days * 86400
    out.print(_tokens().create(name, tenant, role, lifetime_s=lifetime_s), markup=False, soft_wrap=True)


@token_app.command("list")
def token_list(as_json: bool = Json) -> None:
    """List tokens (never the tokens themselves)."""
    rows = [
        {
            "name": row.name,
            "tenant": row.tenant,
            "role": row.role,
            "expired": row.expires is not None and row.expires <= time.time(),
        }
        for row in _tokens().rows()
    ]
    show(rows, ("name", "tenant", "role", "expired"), as_json=as_json)


@token_app.command("revoke")
def token_revoke(name: str) -> None:
    """Make a token worthless."""
    _tokens().revoke(name)
    out.print(f"token {name} revoked", markup=False)


def schema(name: str = typer.Argument(None, help="a document; all if not given")) -> None:
    """Print the JSON Schema of the documents that this layer writes."""
    if name is not None and name not in DOCUMENTS:
        raise NotFound(f"no document {name!r}", do=f"one of: {', '.join(DOCUMENTS)}")
    for document in [name] if name else DOCUMENTS:
        typer.echo(json_schema(DOCUMENTS[document]), nl=False)


def _tokens() -> TokenStore:
    return TokenStore(Settings.load().tokens_file)
