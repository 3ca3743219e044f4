"""Commands of serving: serve, deploy, deployments, stop, chat."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from l4_mmodel._kit import command_line as line
from l4_mmodel._kit.problems import BadInput
from l4_mmodel._kit.tokens import TokenStore
from l4_mmodel.settings import Settings

from .common import Json, Parent, Tenant, app, follow, open_layer


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

    from l4_mmodel._kit import logs
    from l4_mmodel.serving.server import free_port
    from l4_mmodel.web.app import FastPath, create_app, must_be_alone

    follow(parent)
    logs.set_up()
    settings = Settings.load(host=host, port=port, tenant=tenant)
    port = settings.port or free_port(settings.host)
    must_be_alone(settings)
    url = f"http://{settings.host}:{port}"
    if ref is not None:
        mmodel = open_layer(tenant)
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
    mmodel = open_layer(tenant)
    if url is None:
        document = mmodel.deploy(ref, name=name)
    else:
        document = mmodel.deploy_url(ref, url, model=upstream_model or ref, name=name, key_file=key_file)
    line.show_json(document.as_json()) if as_json else print(f"{document.name}: {document.state}")


@app.command()
def deployments(tenant: Tenant = None, as_json: Json = False) -> None:
    """List deployments."""
    mmodel = open_layer(tenant)
    rows = [row.as_json() for row in mmodel.deployed.all(mmodel.tenant)]
    line.show(rows, ("name", "model", "version", "runtime", "state", "url", "detail"), as_json=as_json)


@app.command()
def stop(name: str, tenant: Tenant = None) -> None:
    """End a deployment after the requests under way."""
    open_layer(tenant).stop(name)


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
    from l4_mmodel.chat import talk

    key = key_file.read_text("utf-8").strip() if key_file else os.environ.get("OPENAI_API_KEY", "")
    if not key:
        raise BadInput("no key", field="key_file", do="give --key-file, or set OPENAI_API_KEY")
    talk(url or open_layer(tenant).deployment(model).endpoint.url, model, key, message)
