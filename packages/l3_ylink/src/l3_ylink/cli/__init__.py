"""The command line `ylink`: one module for each group of commands."""

from __future__ import annotations

import importlib
import importlib.util

import typer

from l3_ylink import __version__
from l3_ylink._kit import command_line
from l3_ylink._kit.command_line import add_config_command, new_app
from l3_ylink.settings import Settings

from . import data, extract, gather, generate, publish, quality, serve, transform

#: Command groups by name; each module has `app`.
GROUPS = {"train": "train", "model": "model", "plan": "plan"}

app = new_app("Data and training toolchain: clean data, plan, pretrain, fine-tune.")
app.add_typer(data.app, name="data")
data.app.command("card")(publish.card)
data.app.command("cost")(publish.cost)
data.app.command("extract")(extract.extract)
data.app.command("gather")(gather.gather)
data.app.command("generate")(generate.generate)
data.app.add_typer(quality.classifier, name="classifier")
data.app.add_typer(quality.perplexity, name="perplexity")
data.app.command("contamination")(quality.contamination)
data.app.add_typer(transform.app, name="transform")
for _name, _module in GROUPS.items():
    if importlib.util.find_spec(f"{__name__}.{_module}"):
        app.add_typer(importlib.import_module(f"{__name__}.{_module}").app, name=_name)
add_config_command(app, Settings)
app.add_typer(serve.tokens, name="token")
app.command("serve")(serve.serve)
app.command("schema")(serve.schema)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ylink {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="print the version"
    ),
) -> None:
    """Data and training toolchain: clean data, plan, pretrain, fine-tune."""


def main() -> None:
    """The entry point of `ylink`."""
    command_line.run(app)
