"""The application and what its commands share."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

import typer

from l1_podsys import __version__
from l1_podsys._kit.command_line import add_config_command, err, new_app
from l1_podsys.service import Podsys
from l1_podsys.settings import Settings

app = new_app("Deploys the system environment of an AI cluster: plan, apply, verify, diagnose.")
add_config_command(app, Settings)

JSON = typer.Option(False, "--json", help="print JSON")
EXIT_FAILED = 1


def service() -> Podsys:
    """The service with this machine's settings."""
    return Podsys(Settings.load())


def _version(value: bool) -> None:
    if value:
        print(__version__)
        raise typer.Exit


@app.callback()
def common(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="print the version"
    ),
) -> None:
    pass


@contextlib.contextmanager
def progress(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Shows on a terminal what is being done; silent for JSON and in pipes."""
    if quiet or not sys.stderr.isatty():
        yield lambda _text: None
        return
    with err.status("starting") as status:
        yield status.update
