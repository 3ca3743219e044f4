"""The simulator: the shipping scheduler under a virtual clock, on traces of real clusters.

`simulate(trace, facts, scheme)` feeds the jobs of a trace to `core.cycle.run`, the same function that
the service calls, and measures what comes out.  Baselines (FIFO, EASY, SJF, Tiresias-like) are
other actions on the same world, placement and statement, so a comparison compares policies only.

    trace = read_trace(Path("philly_2017_jobs.csv.gz"))
    result = simulate(trace, cluster("64x8"), scheme("ours"))
"""

from __future__ import annotations

from .engine import simulate
from .jobs import QuotaChange, Trace, TraceJob
from .lives import Costs
from .policies import Scheme, names, scheme
from .results import Result
from .shapes import cluster
from .traces import read_quotas, read_trace

__all__ = [
    "Costs",
    "QuotaChange",
    "Result",
    "Scheme",
    "Trace",
    "TraceJob",
    "cluster",
    "names",
    "read_quotas",
    "read_trace",
    "scheme",
    "simulate",
]
