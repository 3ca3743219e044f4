"""`aistation usage`: who held how many accelerators for how long."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from l2_aistation._kit.command_line import out, show, show_json

from .common import AsJson, Url, app, client


class Dimension(StrEnum):
    """What usage is summed by."""

    TENANT = "tenant"
    QUEUE = "queue"
    USER = "user"
    MODEL = "model"


COLUMNS = ("held_hours", "used_hours", "idle_hours", "idle_share", "jobs")
POOL = ("model", "capacity_hours", "used_hours", "idle_hours", "out_of_service_hours", "free_hours")


@app.command()
def usage(
    by: Annotated[Dimension, typer.Option(help="one row for each of these")] = Dimension.TENANT,
    since: Annotated[str, typer.Option(help="RFC 3339, a date, or back from now: 12h, 7d")] = "1d",
    until: Annotated[str, typer.Option(help="the same; now by default")] = "",
    as_csv: Annotated[bool, typer.Option("--csv", help="print CSV")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show accelerator-hours held, used and idle by tenant, queue, user or model."""
    with client(url) as aistation:
        if as_csv:
            sys.stdout.write(aistation.usage_csv(by=by.value, since=since, until=until))
            return
        report = aistation.usage(by=by.value, since=since, until=until)
    if as_json:
        show_json(report)
        return
    rows = [*report["rows"], {**report["total"], by.value: "all", "jobs": None}]
    rows = [_plain(row) for row in rows]
    title = f"{report['since'][:19]} to {report['until'][:19]}, accelerator-hours"
    show(rows if report["rows"] else [], (by.value, *COLUMNS), as_json=False, title=title)
    if report["pool"]:
        out.print()
        pool = [_plain(row) for row in report["pool"]]
        show(pool, (*POOL, "idle_share"), as_json=False, title=f"the pool since {report['pool_since'][:19]}")


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Hours to the hundredth, shares in percent."""
    words = {name: f"{value:.2f}" for name, value in row.items() if name.endswith("_hours")}
    return {**row, **words, "idle_share": f"{row['idle_share']:.1%}"}
