"""`ylink data card` and `ylink data cost`: what is told of a data set, and what the next one will cost."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import typer

from l3_ylink._kit.command_line import out, show, show_json
from l3_ylink._kit.problems import BadInput

UNITS = {"": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def card(
    folder: Path = typer.Argument(help="the --out folder of a run"),
    date: str | None = typer.Option(None, help="day of publication, YYYY-MM-DD; today by default"),
    as_json: bool = typer.Option(False, "--json", help="print JSON"),
) -> None:
    """Writes the data set card (README.md, for the hub) and croissant.json: contents, licences, steps."""
    from l3_ylink.datakit.card.card import write_card
    from l3_ylink.datakit.card.contents import read_contents

    try:
        day = None if date is None else dt.date.fromisoformat(date)
    except ValueError as error:
        raise BadInput(f"{date!r} is no day", field="--date", do="write it as 2026-01-31") from error
    readme, machine = write_card(folder, day)
    licences = read_contents(folder).licences
    if as_json:
        show_json({"card": str(readme), "croissant": str(machine), **licences._asdict()})
        return
    out.print(f"licences {', '.join(licences.licences)}: {', '.join(licences.conditions) or 'no conditions'}")
    for warning in licences.warnings:
        out.print(f"look at {warning}", markup=False)
    out.print(f"card      {readme}", soft_wrap=True)
    out.print(f"croissant {machine}", soft_wrap=True)


def cost(
    folder: Path = typer.Argument(help="the --out folder of a run"),
    size: str = typer.Option("866TB", "--bytes", help="bytes of input, e.g. 500GB"),
    cores: int = typer.Option(1000, min=1, help="cores of the cluster"),
    check: bool = typer.Option(False, "--check", help="the model beside published tables"),
    as_json: bool = typer.Option(False, "--json", help="print JSON"),
) -> None:
    """What the recipe of a run costs on a cluster: core-hours, hours and bytes out, from its own rates."""
    from l3_ylink.datakit.cost.measured import checks, cost_of

    found = cost_of(folder, bytes_of(size), cores)
    compared = checks() if check or as_json else []
    if as_json:
        show_json({**found.as_json(), "checks": [row._asdict() for row in compared]})
        return
    rows = [
        {
            "step": step.step,
            "CPU s per GB": f"{step.seconds_per_gb.estimate:.1f}",
            "95 %": f"{step.seconds_per_gb.low:.1f} to {step.seconds_per_gb.high:.1f}",
            "core-hours": f"{step.core_hours.estimate:,.3g}",
            "grows": step.scales,
        }
        for step in found.steps
    ]
    show(rows, ("step", "CPU s per GB", "95 %", "core-hours", "grows"), as_json=False)
    for name, interval in (
        ("core-hours", found.core_hours),
        (f"hours on {cores} cores", found.hours),
        ("TB of text out", found.output_bytes.scaled(1e-12)),
        ("MB/s of input a core", found.megabytes_per_core_second),
    ):
        low, high = (f"{value:,.3g}" for value in (interval.low, interval.high))
        out.print(f"{name}: {interval.estimate:,.4g} ({low} to {high})", highlight=False)
    if found.warning:
        out.print(f"doubtful: {found.warning}")
    if compared:
        show([row._asdict() for row in compared], ("what", "published", "model", "ok"), as_json=False)


def bytes_of(text: str) -> float:
    """Bytes from words: `866TB`, `1.5 GB`, `1000`; decimal units."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kMGTP]?)B?\s*", text)
    if found is None or float(found[1]) <= 0:
        raise BadInput(f"{text!r} is no number of bytes", field="--bytes", do="write it as 500GB or 866TB")
    return float(float(found[1]) * 1000 ** UNITS[found[2]])
