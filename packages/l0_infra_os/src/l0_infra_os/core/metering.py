"""Who used how much: node-seconds by tenant and state, from the intervals that transitions leave."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from .lifecycle import HELD, NodeState


@dataclass(frozen=True)
class Interval:
    """A stretch of one node's life in one state; `end` None is still going on.  Times in seconds."""

    node: str
    state: NodeState
    tenant: str | None
    start: float
    end: float | None


@dataclass(frozen=True)
class Usage:
    """Node-seconds of one tenant (None: nobody's) in one state; `charged` is the tenant's bill."""

    tenant: str | None
    state: NodeState
    node_seconds: float
    charged: bool


def usage(intervals: Iterable[Interval], since: float, until: float) -> list[Usage]:
    """Node-seconds within [since, until), by tenant and state.

    Each node is in exactly one state at a time, so the sum over all rows is the number of nodes
    times the time that each was known.
    """
    total: dict[tuple[str | None, NodeState], float] = defaultdict(float)
    for row in intervals:
        end = until if row.end is None else min(row.end, until)
        seconds = end - max(row.start, since)
        if seconds > 0:
            tenant = row.tenant if row.state in HELD else None
            total[tenant, row.state] += seconds
    order = list(NodeState)
    return [
        Usage(tenant, state, seconds, charged=tenant is not None)
        for (tenant, state), seconds in sorted(
            total.items(), key=lambda item: (item[0][0] or "", order.index(item[0][1]))
        )
    ]
