"""What a simulation measured, as numbers for tables and as series for plots."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Result:
    """One policy on one trace.

    jct_s          submission to completion, for each job in order of submission
    wait_s         the part of that in which the job did no work that was kept: jct - duration
    utilisation    accelerator-seconds held / offered, from the first submission to the last completion
    allocated_share  the same over the time in which at least one job waits
    useful_share   accelerator-seconds of kept work / offered
    lost_s         accelerator-seconds held without use: work since the last checkpoint, stops and restarts
    fairness       Jain's index over queues of their mean progress rate (duration / jct)
    share_fairness Jain's index over queues of accelerators held / due (max-min fair with the guarantees),
                   mean over the time in which more is wanted than there is
    guarantee_missing  of accelerators that were guaranteed and wanted in that time, those not had
    fragmentation  of free accelerator-seconds, those on nodes that are partly taken
    cross_leaf     of a gang's ring edges between nodes, those between leaves (by run time); cross_spine alike
    excess_leaves  gangs that use more leaves than the cluster's leaf size asks for
    """

    policy: str
    words: str
    oracle: bool
    trace: str
    accelerators: int
    jct_s: Floats
    wait_s: Floats
    makespan_s: float
    utilisation: float
    allocated_share: float
    useful_share: float
    fairness: float
    share_fairness: float
    guarantee_missing: float
    fragmentation: float
    cross_leaf: float
    cross_spine: float
    excess_leaves: int
    gangs: int
    evictions: int
    lost_s: float
    rejected: int
    unfinished: int
    cycles: int
    cpu_s: float
    by_queue: dict[str, dict[str, float]] = field(default_factory=dict)
    series: dict[str, Floats] = field(default_factory=dict)
    """`at_s`, `held` and `waiting`: means over equal stretches of time."""

    def row(self) -> dict[str, Any]:
        """The numbers of the table; times in hours."""
        return {
            "policy": self.policy,
            "oracle": self.oracle,
            "jobs": len(self.jct_s),
            "jct_mean_h": hours(self.jct_s.mean()) if len(self.jct_s) else 0.0,
            "jct_p50_h": quantile_h(self.jct_s, 0.5),
            "jct_p99_h": quantile_h(self.jct_s, 0.99),
            "wait_mean_h": hours(self.wait_s.mean()) if len(self.wait_s) else 0.0,
            "wait_p50_h": quantile_h(self.wait_s, 0.5),
            "wait_p99_h": quantile_h(self.wait_s, 0.99),
            "utilisation": self.utilisation,
            "allocated_share": self.allocated_share,
            "useful_share": self.useful_share,
            "fairness": self.fairness,
            "share_fairness": self.share_fairness,
            "guarantee_missing": self.guarantee_missing,
            "fragmentation": self.fragmentation,
            "cross_leaf": self.cross_leaf,
            "cross_spine": self.cross_spine,
            "excess_leaves": self.excess_leaves,
            "gangs": self.gangs,
            "evictions": self.evictions,
            "lost_accelerator_h": hours(self.lost_s),
            "makespan_h": hours(self.makespan_s),
            "rejected": self.rejected,
            "unfinished": self.unfinished,
            "cycles": self.cycles,
            "cpu_s": self.cpu_s,
        }

    def as_json(self) -> dict[str, Any]:
        """The table's numbers and those of each queue."""
        return {**self.row(), "words": self.words, "trace": self.trace, "by_queue": self.by_queue}


def hours(seconds: float) -> float:
    """Seconds in hours."""
    return float(seconds) / 3600


def quantile_h(values: Floats, share: float) -> float:
    """A quantile in hours; 0 of nothing."""
    return hours(np.quantile(values, share)) if len(values) else 0.0


def jain(values: Floats) -> float:
    """Jain's fairness index (Jain, Chiu, Hawe 1984): 1 all alike, 1/n one has all."""
    if not len(values) or not values.any():
        return 1.0
    return float(values.sum() ** 2 / (len(values) * (values**2).sum()))
