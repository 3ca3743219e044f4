"""`infra-os`: the command line.

Exit codes: 0 done, 1 the operation failed, 2 bad input, 3 something that it needs is not there.
"""

from __future__ import annotations

import typer

from l0_infra_os._kit.command_line import add_config_command, new_app, run
from l0_infra_os.settings import Settings
from l0_infra_os.version import __version__

from . import fleet, images, lab, service, tenancy

app = new_app("Multi-tenant bare metal: from servers with a BMC to provisioned, isolated tenant nodes.")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"infra-os {__version__}")
        raise typer.Exit


@app.callback()
def infra_os(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="print it"),
) -> None:
    """Multi-tenant bare metal: from servers with a BMC to provisioned, isolated tenant nodes."""


fleet.add(app)
tenancy.add(app)
app.add_typer(images.app, name="image")
app.add_typer(lab.app, name="lab")
service.add(app)
add_config_command(app, Settings)


def main() -> None:
    """The entry point."""
    run(app)
