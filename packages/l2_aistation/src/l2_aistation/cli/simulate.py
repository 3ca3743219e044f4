"""`aistation simulate`: a trace under several policies, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from l2_aistation._kit.command_line import err, out, show, show_json
from l2_aistation._kit.problems import BadInput

from .common import AsJson, app

if TYPE_CHECKING:
    from l2_aistation.simulator.engine import Progress

COLUMNS = (
    "policy",
    "jct_mean_h",
    "jct_p50_h",
    "jct_p99_h",
    "wait_p99_h",
    "utilisation",
    "allocated_share",
    "fairness",
    "fragmentation",
    "cross_leaf",
    "evictions",
    "unfinished",
    "cpu_s",
)


@app.command()
def simulate(
    trace: Annotated[
        Path, typer.Argument(help="a trace: Philly, Alibaba 2023, sacct --parsable2, or generic CSV")
    ],
    *,
    cluster: Annotated[str, typer.Option(help="64x8, 1250x8/leaf32/spine8, or a CSV file of nodes")],
    policy: Annotated[
        list[str] | None, typer.Option(help="a policy to run; several times for several")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="write an HTML report to this file")] = None,
    quotas: Annotated[Path | None, typer.Option(help="quotas by day: CSV with date, vc, gpus")] = None,
    variant: Annotated[str | None, typer.Option(help="the re-sampling of an Alibaba trace")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="only the first so many jobs")] = None,
    checkpoint_s: Annotated[float, typer.Option(help="a job saves its work every so many seconds")] = 1800.0,
    restart_s: Annotated[float, typer.Option(help="seconds that a restart after an eviction costs")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Run a trace through the scheduler under a virtual clock and compare policies."""
    from l2_aistation import simulator
    from l2_aistation.simulator import plots
    from l2_aistation.simulator.report import write_report

    if report is not None:
        plots.check()
        if not report.parent.is_dir():
            raise BadInput(f"there is no folder {report.parent}", field="report")
    costs = simulator.Costs(checkpoint_s=checkpoint_s, restart_s=restart_s)
    schemes = [simulator.scheme(name) for name in dict.fromkeys(policy or ["ours"])]
    nodes = simulator.cluster(cluster)
    read = simulator.read_trace(trace, variant=variant)
    if jobs is not None:
        read = read.head(jobs)
    if quotas is not None:
        read.quotas = simulator.read_quotas(quotas, read.jobs[0].submit_s)
    results = []
    for scheme in schemes:
        with _progress(scheme.name) as progress:
            results.append(simulator.simulate(read, nodes, scheme, costs, progress))
    if report is not None:
        write_report(report, results, cluster, costs)
    if as_json:
        show_json([result.as_json() for result in results])
        return
    show([result.row() for result in results], COLUMNS, as_json=False)
    if report is not None:
        out.print(f"report: {report}", soft_wrap=True)


@contextmanager
def _progress(name: str) -> Iterator[Progress]:
    """A bar on a terminal, nothing elsewhere."""
    from rich.progress import Progress as Bar

    with Bar(console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(name)
        yield lambda done, total: bar.update(task, completed=done, total=total)
