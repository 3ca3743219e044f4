"""`aistation spares`: how many spare nodes, which checkpoint interval, what goodput."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from l2_aistation._kit.command_line import err, out, show, show_json

from .common import AsJson, app

COLUMNS = (
    "spares",
    "goodput",
    "margin",
    "stalls",
    "again",
    "recovery",
    "waiting",
    "failures",
    "waited",
    "time_to_recover",
)


@app.command()
def spares(
    *,
    nodes: Annotated[int, typer.Option(min=1, help="nodes that the job needs, all of them")],
    failures_per_node_day: Annotated[
        float, typer.Option(help="failures that stop the job, a node and day")
    ] = 0.0065,
    repair_h: Annotated[float, typer.Option(help="mean hours until a failed node is a spare again")] = 24.0,
    recovery_s: Annotated[float, typer.Option(help="seconds from a failure to the first new step")] = 300.0,
    stall_s: Annotated[float, typer.Option(help="seconds that a checkpoint stops training for")] = 2.0,
    interval_s: Annotated[
        float | None, typer.Option(help="seconds between checkpoints; else the best by Daly")
    ] = None,
    spares: Annotated[
        list[int] | None, typer.Option(min=0, help="a number of spares to look at; several times for several")
    ] = None,
    days: Annotated[float, typer.Option(min=1, help="length of the job")] = 90.0,
    replications: Annotated[int, typer.Option(min=2, help="runs of each number of spares")] = 20,
    seed: Annotated[int, typer.Option(help="of the random times")] = 0,
    as_json: AsJson = False,
) -> None:
    """Say how many spare nodes a long job needs, by simulating failures, repairs and recovery."""
    from l2_aistation.simulator.spares import HOUR, Fleet, Outcome, as_row, plan_spares

    fleet = Fleet(nodes, failures_per_node_day, repair_h * HOUR, recovery_s, stall_s, interval_s)
    with err.status("simulating") as status:

        def told(outcome: Outcome) -> None:
            status.update(f"simulating: {outcome.spares} spares, goodput {100 * outcome.goodput:.2f} %")

        outcomes, best = plan_spares(
            fleet, spares or None, days=days, replications=replications, seed=seed, told=told
        )
    if as_json:
        show_json(
            {
                "fleet": asdict(fleet),
                "mean_time_between_failures_s": fleet.mean_time_between,
                "checkpoint_interval_s": fleet.checkpoint_interval,
                "spares": best.spares,
                "outcomes": [asdict(outcome) for outcome in outcomes],
            }
        )
        return
    show([as_row(outcome) for outcome in outcomes], COLUMNS, as_json=False)
    out.print(
        f"{best.spares} spares: goodput {100 * best.goodput:.2f} %; a failure every"
        f" {fleet.mean_time_between / HOUR:.2f} h, a checkpoint every {fleet.checkpoint_interval:.0f} s"
    )
