"""What the commands share: the application, options, the client."""

from __future__ import annotations

from typing import Annotated

import typer

from l2_aistation._kit.command_line import new_app
from l2_aistation.client import Aistation
from l2_aistation.settings import Settings

app = new_app(
    "Scheduling platform: one pool of accelerators, gangs placed whole, training that heals itself."
)

AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
Url = Annotated[str | None, typer.Option("--url", help="where the service is")]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="the job's id")]


def client(url: str | None) -> Aistation:
    """A client of the service at `url`, or of this machine's."""
    return Aistation(settings=Settings.load(url=url))
