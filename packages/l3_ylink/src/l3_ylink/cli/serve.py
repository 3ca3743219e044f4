"""`ylink serve`, `ylink token …` and `ylink schema`."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from l3_ylink._kit.command_line import err, new_app, show
from l3_ylink._kit.documents import Document, json_schema
from l3_ylink._kit.problems import NotFound, Unavailable
from l3_ylink._kit.tokens import TokenStore
from l3_ylink.documents import DatasetManifest, ModelManifest, ParallelPlan
from l3_ylink.settings import Settings

DOCUMENTS: dict[str, type[Document]] = {
    "dataset-manifest": DatasetManifest,
    "parallel-plan": ParallelPlan,
    "model-manifest": ModelManifest,
}
JSON = typer.Option(False, "--json", help="print JSON")

tokens = new_app("Who may use the REST interface and the pages.")


@tokens.command("create")
def create(
    name: str = typer.Argument(help="a name for the token"),
    tenant: str = typer.Option(..., help="the tenant it belongs to"),
    role: str = typer.Option("user", help="user, or operator: sees every tenant"),
    as_json: bool = JSON,
) -> None:
    """Makes a token and prints it, this once."""
    token = _store().create(name, tenant, role)
    typer.echo(json.dumps({"name": name, "token": token}) if as_json else token)


@tokens.command("list")
def list_tokens(as_json: bool = JSON) -> None:
    """The tokens: name, tenant, role and end of life; never the token itself."""
    rows = [{**asdict(row)} for row in _store().rows()]
    for row in rows:
        del row["sha256"]
    show(rows, ("name", "tenant", "role", "expires"), as_json=as_json)


@tokens.command("revoke")
def revoke(name: str = typer.Argument(help="the token's name")) -> None:
    """Takes a token away."""
    _store().revoke(name)


def _store() -> TokenStore:
    store = TokenStore(Settings.load().tokens_file)
    store.admin_token()
    return store


def serve(
    host: str | None = typer.Option(None, help="address to listen on"),
    port: int | None = typer.Option(None, help="port to listen on"),
) -> None:
    """Serves the REST interface and the pages."""
    import uvicorn

    from l3_ylink.web import create_app

    settings = Settings.load(host=host, port=port)
    admin = TokenStore(settings.tokens_file)
    admin.admin_token()
    err.print(f"pages and REST on http://{settings.host}:{settings.port}  (token in {admin.admin_file})")
    try:
        uvicorn.run(create_app(settings), host=settings.host, port=settings.port, log_level="warning")
    except OSError as error:
        raise Unavailable(f"cannot listen on {settings.host}:{settings.port}", why=str(error)) from error


def schema(
    name: str | None = typer.Argument(None, help="dataset-manifest, parallel-plan or model-manifest"),
) -> None:
    """Prints the JSON Schema of one document, or of all in one JSON object."""
    if name is None:
        typer.echo(
            json.dumps({key: json.loads(json_schema(model)) for key, model in DOCUMENTS.items()}, indent=1)
        )
        return
    if name not in DOCUMENTS:
        raise NotFound(f"no document {name!r}", do=f"one of {', '.join(DOCUMENTS)}")
    typer.echo(json_schema(DOCUMENTS[name]), nl=False)
