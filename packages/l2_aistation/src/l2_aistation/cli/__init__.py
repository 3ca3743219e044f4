"""The `aistation` command line."""

from __future__ import annotations

import json
import logging
import socket
from pathlib import Path
from typing import Annotated, Any

import typer

from l2_aistation import __version__
from l2_aistation._kit import logs
from l2_aistation._kit.command_line import add_config_command, err, out, run, show, show_json
from l2_aistation._kit.documents import Document, json_schema
from l2_aistation._kit.problems import BadInput, Unavailable
from l2_aistation._kit.tokens import TokenStore
from l2_aistation.documents import JobRecord, JobSpec
from l2_aistation.settings import Settings

from . import admin, chaos, health, jobs, metering, policy, simulate, spares, whatif
from .common import AsJson, app

__all__ = [
    "admin",
    "app",
    "chaos",
    "health",
    "jobs",
    "main",
    "metering",
    "policy",
    "simulate",
    "spares",
    "whatif",
]

add_config_command(app, Settings)
DOCUMENTS: dict[str, type[Document]] = {"job-spec": JobSpec, "job-record": JobRecord}


def _version(value: bool) -> None:
    if value:
        out.print(__version__)
        raise typer.Exit


@app.callback()
def main_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Scheduling platform: one pool of accelerators, gangs placed whole, training that heals itself."""


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="address to listen on")] = None,
    port: Annotated[int | None, typer.Option(help="port to listen on")] = None,
    broker_listen: Annotated[
        str | None, typer.Option(help="address where the private broker listens for agents")
    ] = None,
) -> None:
    """Run the scheduler, the REST interface and the pages in one process."""
    import uvicorn

    from l2_aistation.service import take_lock
    from l2_aistation.service.engines import check_engine
    from l2_aistation.web import create_app
    from l2_aistation.web.process import tune

    settings = Settings.load(host=host, port=port, broker_listen=broker_listen)
    logs.set_up()
    logging.getLogger("alembic").setLevel(logging.WARNING)
    tune()
    tokens = TokenStore(settings.tokens_file)
    tokens.admin_token()
    take_lock(settings).close()  # said here in one line; the service takes it for good
    check_engine(settings)
    listening = listen(settings.host, settings.port)
    out.print(f"aistation on http://{settings.host}:{settings.port}, operator's token in {tokens.admin_file}")
    config = uvicorn.Config(
        create_app(settings),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=3,
        lifespan="on",
        ws="none",
    )
    uvicorn.Server(config).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; `Unavailable` says why there is none."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {host}:{port}", why=str(error), do="choose another --host or --port"
        ) from error


@app.command()
def agent(
    node: Annotated[str, typer.Option(help="this node's id in the pool")],
) -> None:
    """Run a node's agent: it takes commands from the broker and supervises tasks."""
    from l2_aistation.agent import run as run_agent

    logs.set_up()
    run_agent(node, Settings.load())


@app.command()
def diagnose(
    files: Annotated[list[Path], typer.Argument(help="logs of ranks and kernels")],
    as_json: AsJson = False,
) -> None:
    """Say what broke, from logs alone: label, place, evidence, action."""
    from l2_aistation.log_files import diagnose as diagnose_files

    with err.status(f"reading {', '.join(path.name for path in files)}"):
        answer: dict[str, Any] = diagnose_files(files).as_json()
    if as_json:
        show_json(answer)
        return
    columns = ("label", "category", "node", "rank", "action", "confidence")
    show(answer["causes"], columns, as_json=False)
    for cause in answer["causes"]:
        for line in cause.get("evidence", []):
            out.print(f"  {line}", markup=False, soft_wrap=True)


@app.command()
def schema(
    name: Annotated[str | None, typer.Argument(help=f"one of {', '.join(DOCUMENTS)}")] = None,
) -> None:
    """Print the JSON Schema of a document of this layer, or of all."""
    if name is None:
        show_json({key: json.loads(json_schema(model)) for key, model in DOCUMENTS.items()})
    elif name in DOCUMENTS:
        print(json_schema(DOCUMENTS[name]), end="")
    else:
        raise BadInput(
            f"there is no document {name!r}", field="name", do=f"use one of {', '.join(DOCUMENTS)}"
        )


def main() -> None:
    """The entry point of the `aistation` script."""
    run(app)
