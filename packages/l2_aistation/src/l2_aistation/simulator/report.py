"""The report: one HTML page that needs nothing else, with tables, plots and what the numbers mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from l2_aistation import __version__
from l2_aistation._kit.files import atomic_write

from . import plots
from .lives import Costs
from .results import Result

COLUMNS = (
    ("jct_mean_h", "mean completion, h", "平均完成时间"),
    ("jct_p50_h", "p50, h", "中位数"),
    ("jct_p99_h", "p99, h", "p99"),
    ("wait_mean_h", "mean waiting, h", "平均等待"),
    ("wait_p99_h", "p99 waiting, h", "等待 p99"),
    ("utilisation", "utilisation", "利用率"),
    ("allocated_share", "allocated while queued", "排队时分配率"),
    ("useful_share", "useful", "有效率"),
    ("fairness", "fairness", "公平性"),
    ("share_fairness", "fairness of shares", "份额公平性"),
    ("fragmentation", "fragmentation", "碎片率"),
    ("cross_leaf", "ring edges across leaves", "跨叶流量"),
    ("cross_spine", "across spines", "跨脊流量"),
    ("evictions", "evictions", "抢占次数"),
    ("lost_accelerator_h", "lost, accelerator-h", "损失卡时"),
)
"""Fields of a row with their headings in English and Chinese."""

MEANINGS = (
    ("completion", "from submission to the end of the job"),
    ("waiting", "completion less the run time: queueing, lost work and restarts"),
    (
        "utilisation",
        "accelerator-time held / offered, from the first submission to the last end, the tail included",
    ),
    ("allocated while queued", "the same over the time in which at least one job waits"),
    ("useful", "accelerator-time of work that was kept / offered"),
    ("fairness", "Jain's index over queues of their mean run time / completion time; 1: all alike"),
    ("fragmentation", "of free accelerator-time, the part on nodes that are partly taken"),
    (
        "fairness of shares",
        "Jain's index over queues of accelerators held / due, while more is wanted than there is",
    ),
    (
        "ring edges",
        "of the edges between nodes of a ring over a gang's ranks, those between switches, by run time",
    ),
)


def write_report(path: Path, results: Sequence[Result], cluster: str, costs: Costs) -> None:
    """Writes the page of some results on one trace and cluster."""
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("l2_aistation.simulator", "templates")
    environment = Environment(loader=loader, autoescape=True)
    text = environment.get_template("simulation.html").render(
        results=results,
        rows=[result.row() for result in results],
        charts=plots.charts(results),
        columns=COLUMNS,
        meanings=MEANINGS,
        cluster=cluster,
        costs=costs,
        version=__version__,
        queues=sorted({queue for result in results for queue in result.by_queue}),
    )
    atomic_write(path, text)
