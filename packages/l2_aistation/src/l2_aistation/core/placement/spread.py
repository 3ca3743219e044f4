"""Own tasks spread over domains: so many at most in each, or as evenly as they fit."""

from __future__ import annotations

import numpy as np

from l2_aistation.core.demand import Demand
from l2_aistation.core.pool import Ints, Pool

from .room import Room, domains
from .switches import choose, fill


def spread(pool: Pool, room: Room, caps: Ints, count: int, demand: Demand) -> Ints | None:
    """As `choose`, with at most `most_per_domain` tasks in a domain of the level to spread over.

    Without that number the smallest one that lets the gang fit is taken.
    """
    assert demand.rules is not None
    domain = domains(pool, demand.rules.spread_level or "node")
    if demand.rules.most_per_domain is not None:
        return choose(
            pool, room, _trimmed(pool, room, caps, domain, demand.rules.most_per_domain), count, demand
        )
    best = None
    low, high = 1, count
    while low <= high:  # what fits with n in a domain fits with n + 1
        middle = (low + high) // 2
        found = choose(pool, room, _trimmed(pool, room, caps, domain, middle), count, demand)
        if found is None:
            low = middle + 1
        else:
            best, high = found, middle - 1
    return best


def _trimmed(pool: Pool, room: Room, caps: Ints, domain: Ints, most: int) -> Ints:
    """What each node could take where a domain takes `most` at most: on the nodes that fit best."""
    sums = np.bincount(domain, weights=caps).astype(np.int64)
    if int(sums.max(initial=0)) <= most:
        return caps
    if len(sums) == len(pool):
        return np.minimum(caps, most)
    trimmed = np.where(sums[domain] <= most, caps, 0)
    for number in np.flatnonzero(sums > most):
        trimmed += fill(pool, room, np.where(domain == number, caps, 0), most)
    return trimmed
