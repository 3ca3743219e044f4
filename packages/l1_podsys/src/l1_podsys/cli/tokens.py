"""`podsys token`: who may use the REST interface and the pages."""

from __future__ import annotations

import typer

from l1_podsys._kit.command_line import show, show_json
from l1_podsys._kit.tokens import TokenStore
from l1_podsys.settings import Settings

from .common import JSON, app

token_app = typer.Typer(help="Tokens for the REST interface and the pages.", no_args_is_help=True)
app.add_typer(token_app, name="token")


def _tokens() -> TokenStore:
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
