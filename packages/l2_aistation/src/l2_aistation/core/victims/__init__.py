"""Who has to leave so that a claimant can start: the cheapest set, chosen by where the claimant will run.

`find` first asks whether the claimant could start if everybody left whom it may ask; a gang that
cannot evicts nobody.  Few candidates are searched exactly, by increasing weight; of many, those that
free the most room for their weight are taken under each switch that could hold the claimant, and of
these every one that turns out not to be needed is spared.  So no subset of the victims would do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from l2_aistation.core.cycle import Session
from l2_aistation.core.policy import Request, Right

from .candidates import Candidate, gather
from .exact import MOST_EXACT, cheapest
from .greedy import by_room
from .one import one
from .spare import spared
from .trial import Plan, Trial
from .trying import by_trying

__all__ = ["Plan", "find"]

MOST_SETS = 4
"""Sets of victims whose plan is looked at, the best first."""


def find(session: Session, request: Request, right: Right) -> Plan | None:
    """The plan of a claimant under one right; None where it finds no place, or need not ask anybody."""
    candidates = gather(session, request, right)
    if not candidates:
        return None
    trial = Trial(session, request, right, candidates)
    alone = one(trial)
    if alone is not None:
        return alone
    if not trial.feasible():
        return None
    plan = _search(trial)
    if plan is None and (fewer := trial.narrowed()) is not None:
        plan = _search(fewer)
    return plan


def _search(trial: Trial) -> Plan | None:
    if len(trial.candidates) <= MOST_EXACT:
        return cheapest(trial)
    for way in _ways(trial):
        for chosen in islice(way(trial), MOST_SETS):
            plan = spared(trial, chosen)
            if plan is not None:
                return plan
    return None


def _ways(trial: Trial) -> list[Callable[[Trial], Iterator[list[Candidate]]]]:
    if not trial.by_room:
        return [by_trying]
    return [by_room] if trial.right.moves else [by_room, by_trying]
