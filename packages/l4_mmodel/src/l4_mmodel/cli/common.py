"""What the commands share: options, the opened layer, progress."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from l4_mmodel._kit import command_line as line
from l4_mmodel.settings import Settings

app = line.new_app("Model management: register, verify, evaluate, promote and serve models.")
line.add_config_command(app, Settings)

Json = Annotated[bool, typer.Option("--json", help="print JSON")]
Tenant = Annotated[str | None, typer.Option("--tenant", help="act for this tenant")]
Parent = Annotated[int | None, typer.Option("--parent", hidden=True)]


def open_layer(tenant: str | None = None) -> Any:
    from l4_mmodel.service import Mmodel

    return Mmodel(Settings.load(tenant=tenant), by="command line")


def follow(parent: int | None) -> None:
    """Started by a program of ours: end when it ends, however it does."""
    if parent is not None:
        from l4_mmodel.serving.runtimes.supervised import die_with_parent

        die_with_parent(parent)


class Progress:
    """A progress bar on stderr; nothing with --json or without a terminal."""

    def __init__(self, quiet: bool) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.bar = Progress(
            *columns, console=line.err, transient=True, disable=quiet or not sys.stderr.isatty()
        )

    def __enter__(self) -> Any:
        self.bar.start()
        task = self.bar.add_task("", total=None)
        return lambda what, done, total: self.bar.update(task, description=what, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        self.bar.stop()
