"""`aistation health`: what probes find on this machine."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from l2_aistation._kit.command_line import err, show
from l2_aistation._kit.problems import BadInput, Failed

from .common import AsJson, app


@app.command()
def health(
    probe: Annotated[
        list[str] | None, typer.Option(help="a probe to run; several times for several; else all")
    ] = None,
    folder: Annotated[
        list[Path] | None, typer.Option(help="a folder that must take writes, as the shared one")
    ] = None,
    limit_s: Annotated[float, typer.Option(min=0.1, help="a probe that takes longer hangs")] = 20.0,
    as_json: AsJson = False,
) -> None:
    """Look at this machine: kernel log, GPUs, fabric, storage, clock.  Exit code 1 where something is bad."""
    from l2_aistation import health as probes

    for name in probe or []:
        if name not in probes.names():
            raise BadInput(
                f"{name!r} is no probe", field="probe", do=f"choose from {', '.join(probes.names())}"
            )
    with err.status("looking"):
        findings = probes.look(probe or None, folder or [], limit_s)
    rows = [asdict(finding) for finding in findings]
    show(rows, ("probe", "state", "label", "entity", "evidence"), as_json=as_json)
    bad = sorted({finding.probe for finding in findings if finding.state == "bad"})
    if bad:
        raise Failed(f"bad: {', '.join(bad)}")
