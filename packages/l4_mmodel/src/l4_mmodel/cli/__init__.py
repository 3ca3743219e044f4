"""`mmodel`: register | verify | eval | compare | promote | serve | keys | chat | models | …"""

from __future__ import annotations

from typing import Annotated

import typer

from l4_mmodel._kit import command_line as line
from l4_mmodel._kit.documents import Document, json_schema
from l4_mmodel._kit.problems import BadInput

from . import access, evaluation, registry, serving  # noqa: F401 (their commands join the application)
from .common import app


def _version(value: bool) -> None:
    if value:
        from l4_mmodel import __version__

        print(f"mmodel {__version__}")
        raise typer.Exit


@app.callback()
def root(
    _version_flag: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Model management."""


@app.command()
def schema(name: Annotated[str | None, typer.Argument(help="eval-report or deployment")] = None) -> None:
    """Print the JSON Schema of a document."""
    from l4_mmodel.documents import Deployment, EvalReport

    documents: dict[str, type[Document]] = {"eval-report": EvalReport, "deployment": Deployment}
    if name is not None and name not in documents:
        raise BadInput(
            f"{name!r} is not a document of this layer", field="name", do=f"use {', '.join(documents)}"
        )
    for key, document in documents.items():
        if name in (None, key):
            print(json_schema(document), end="")


def main() -> None:
    """The entry point."""
    line.run(app)
