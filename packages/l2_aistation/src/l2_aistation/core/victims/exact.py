"""All sets of victims by increasing weight: for few candidates, the first that will do is the best."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from .candidates import Candidate
from .trial import Plan, Trial

MOST_EXACT = 10
"""Candidates up to which every set is looked at."""


def cheapest(trial: Trial) -> Plan | None:
    """The plan of the least weight, then of the fewest victims, then of the fewest switches."""
    best: Plan | None = None
    for victims in by_weight(trial.candidates):
        weight = sum(item.weight for item in victims)
        if best is not None and (weight, len(victims)) > best.rank:
            return best
        plan = trial.plan(victims)
        if plan is not None and (best is None or trial.spread(plan) < trial.spread(best)):
            best = plan
    return best


def by_weight(candidates: list[Candidate]) -> Iterator[list[Candidate]]:
    """Every set of candidates that is not empty, the lightest first; `candidates` go by weight.

    A set is followed by itself with the next candidate added, and with its last one replaced by the
    next: each set comes up once, after all lighter ones.
    """
    if not candidates:
        return
    heap: list[tuple[int, int, tuple[int, ...]]] = [(candidates[0].weight, 1, (0,))]
    while heap:
        weight, count, chosen = heapq.heappop(heap)
        yield [candidates[number] for number in chosen]
        last = chosen[-1]
        if last + 1 < len(candidates):
            more = candidates[last + 1].weight
            heapq.heappush(heap, (weight + more, count + 1, (*chosen, last + 1)))
            swapped = weight - candidates[last].weight + more
            heapq.heappush(heap, (swapped, count, (*chosen[:-1], last + 1)))
