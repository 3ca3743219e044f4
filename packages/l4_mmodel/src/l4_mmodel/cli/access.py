"""Commands of access: keys of the API, tokens of REST and pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from l4_mmodel._kit import command_line as line
from l4_mmodel._kit.tokens import TokenStore
from l4_mmodel.settings import Settings

from .common import Json, Tenant, app, open_layer

keys_app = typer.Typer(help="Keys of the OpenAI-compatible API.", no_args_is_help=True)
token_app = typer.Typer(help="Tokens of REST and pages.", no_args_is_help=True)
app.add_typer(keys_app, name="keys")
app.add_typer(token_app, name="token")


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
    from l4_mmodel._kit.files import atomic_write
    from l4_mmodel.security.keys import SCOPES

    made = open_layer(tenant).keys.create(
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
    rows = [key.as_json() for key in open_layer(tenant).keys.all()]
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
    open_layer(tenant).keys.revoke(name)


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
