"""`aistation chaos`: faults on purpose."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2_aistation._kit.command_line import err, new_app, show
from l2_aistation._kit.problems import BadInput, Failed

from .common import AsJson, app
from .jobs import read_specs

if TYPE_CHECKING:
    from l2_aistation.chaos import Fault, Result

chaos = new_app("Put faults into a training and see whether it heals.")
app.add_typer(chaos, name="chaos")

COLUMNS = ("fault", "meaning", "label", "seconds", "again", "attempts", "curve", "ok")


@chaos.command("run")
def run_faults(
    spec: Annotated[
        Path, typer.Argument(help="a job-spec whose program reports steps and resumes by itself")
    ],
    fault: Annotated[
        list[str] | None, typer.Option(help="a fault to put in; several times for several; else all")
    ] = None,
    spares: Annotated[int, typer.Option(min=0, help="spare nodes of the cluster")] = 1,
    as_json: AsJson = False,
) -> None:
    """Run a job on a cluster of processes on this machine, once calm and once with each fault.

    Exit code 1 where a fault was not healed, not named right, or changed the loss curve.
    """
    from l2_aistation.chaos import run
    from l2_aistation.service.jobs import check_spec

    chosen = _chosen(fault)
    values = read_specs(spec)
    if len(values) != 1:
        raise BadInput("holds several jobs", field=str(spec), do="give a file with one job-spec")
    checked = check_spec(values[0]).spec
    with (
        tempfile.TemporaryDirectory(prefix="aistation-chaos-") as name,
        err.status("starting a cluster") as status,
    ):
        results = run(spec, checked, chosen, folder=Path(name), spares=spares, say=status.update)
    show([_row(result) for result in results], COLUMNS, as_json=as_json)
    failed = [result.fault for result in results if not result.ok]
    if failed:
        raise Failed(f"not healed as it should be: {', '.join(failed)}")


@chaos.command("faults")
def list_faults(as_json: AsJson = False) -> None:
    """List the faults and what each must be called."""
    from l2_aistation.chaos import FAULTS

    rows = [
        {"fault": one.name, "meaning": one.meaning, "label": ", ".join(one.labels) or "none"}
        for one in FAULTS
    ]
    show(rows, ("fault", "meaning", "label"), as_json=as_json)


def _chosen(names: list[str] | None) -> list[Fault]:
    from l2_aistation.chaos import FAULTS

    known = {one.name: one for one in FAULTS}
    for name in names or []:
        if name not in known:
            raise BadInput(f"{name!r} is no fault", field="fault", do=f"choose from {', '.join(known)}")
    return [known[name] for name in names] if names else list(FAULTS)


def _row(result: Result) -> dict[str, Any]:
    row = asdict(result)
    row["seconds"] = None if result.seconds is None else round(result.seconds, 2)
    row["curve"] = "as undisturbed" if result.curve else "other"
    return row
