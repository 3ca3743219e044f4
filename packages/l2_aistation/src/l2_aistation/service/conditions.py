"""What nodes say of themselves while they run: cached data sets, weak links, faults.

It comes with heartbeats and is kept nowhere: after a restart the next beats say it again.  What the
cluster's report said of a node's health goes on to hold.
"""

from __future__ import annotations

import re

from l2_aistation.core.events import Condition
from l2_aistation.core.pool import OK

from .cordoning import heed
from .platform import Platform

DIGEST = re.compile(r"^sha256:[0-9a-f]{64}$")
MOST_DATA = 1000
"""Data sets of a node that are looked at."""


def take(platform: Platform, node: str, condition: Condition) -> None:
    """Brings the pool's marks of a node up to date."""
    before = platform.conditions.get(node, Condition())
    platform.conditions[node] = condition
    pool, facts = platform.world.pool, platform.node(node)
    data = {name for name in condition.data[:MOST_DATA] if DIGEST.match(name)}
    if pool.set_cached_on(node, data) and any(demand.data for demand in platform.world.waiting.alike):
        platform.dirty = True  # somebody may be waiting for just that
    if (condition.weak_links, condition.faults) == (before.weak_links, before.faults):
        return
    rails = max(len(facts.weak_rails), len(condition.weak_links))
    pool.set_health(node, ok=facts.health == OK and not condition.faults, weak_rails=rails)
    platform.note(
        "node",
        None,
        node=node,
        change="condition",
        weak_links=condition.weak_links,
        faults=condition.faults,
    )
    heed(platform, node, condition)
