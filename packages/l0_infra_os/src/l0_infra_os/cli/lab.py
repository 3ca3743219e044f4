"""`infra-os lab …`: a server room on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from l0_infra_os._kit.command_line import err, out, show
from l0_infra_os._kit.problems import BadInput
from l0_infra_os.settings import Settings

from .common import Json

if TYPE_CHECKING:
    from l0_infra_os.lab import Lab

app = typer.Typer(
    help="A server room on this machine: machines with BMCs, switches, faults.", no_args_is_help=True
)
COLUMNS = ("name", "kind", "power", "stage", "bmc", "leaf", "rack", "faults")


def _lab() -> Lab:
    from l0_infra_os.lab import Lab

    return Lab(Settings.load().lab_folder)


def _mount(text: str) -> tuple[str, str, str]:
    source, _, rest = text.partition(":")
    target, _, mode = rest.rpartition(":") if rest.endswith((":ro", ":rw")) else (rest, "", "ro")
    if not source:
        raise BadInput(f"{text!r} is no mount", field="mount", do="write HOST[:PATH[:ro|rw]]")
    return source, mode, target or source


@app.command("up")
def up(
    machines: int = typer.Option(5, "--machines", help="how many"),
    kind: str = typer.Option("nspawn", "--kind", help="nspawn, qemu or process"),
    leaves: int = typer.Option(2, "--leaves", help="how many leaf switches"),
    storage: Path = typer.Option(None, "--storage", help="folder with a sub-folder for each tenant"),
    mount: list[str] = typer.Option([], "--mount", help="HOST[:PATH[:ro|rw]] seen in each machine"),
) -> None:
    """Bring the lab up: machines cabled and off, their BMCs listening."""
    lab = _lab()
    mounts = [_mount(text) for text in mount]
    if lab.stands(machines, kind, leaves, mounts=mounts, storage=storage):  # type: ignore[arg-type]
        err.print(f"lab: is up already in {lab.folder.path}", markup=False, soft_wrap=True)
    else:
        lab.up(machines, kind, leaves, mounts=mounts, storage=storage)  # type: ignore[arg-type]
    first, last = lab.endpoints[0], lab.endpoints[-1].rpartition(":")[2]
    command = f"infra-os enroll {first}-{last} --username {lab.username} --password-file "
    command += str(lab.folder.password_file)
    err.print(f"next: {command}", markup=False, soft_wrap=True)


@app.command("status")
def status(as_json: bool = Json) -> None:
    """Show the machines of the lab."""
    show(_lab().status(), COLUMNS, as_json=as_json)


@app.command("fault")
def fault(
    machine: str = typer.Argument(None, help="the machine's name"),
    name: str = typer.Argument(None, help="the fault; none: list them", metavar="FAULT"),
    segment: str = typer.Option("compute", "--segment", help="which cable"),
    value: float = typer.Option(None, "--value", help="how much"),
    clear: bool = typer.Option(False, "--clear", help="take the fault (or all) out again"),
    as_json: bool = Json,
) -> None:
    """Inject a fault into a machine, its BMC or a cable; without names, list the faults."""
    from l0_infra_os.lab import FAULTS

    if machine is None or (name is None and not clear):
        rows = [{"fault": fault_name, "what": text} for fault_name, text in FAULTS.items()]
        show(rows, ("fault", "what"), as_json=as_json)
    elif clear:
        _lab().clear(machine, name)
    else:
        _lab().inject(machine, name, segment=segment, value=value)


@app.command("down")
def down() -> None:
    """Take the lab down and remove everything it made."""
    _lab().down()
    out.print("down")


@app.command("clean")
def clean() -> None:
    """Remove what dead labs of this machine have left."""
    from l0_infra_os.lab import Lab

    dead = Lab.clean()
    out.print(f"cleaned: {', '.join(dead)}" if dead else "nothing to clean", markup=False)
