"""The commonest case at little cost: a single task, and a single victim that makes room for it."""

from __future__ import annotations

import numpy as np

from .trial import Plan, Trial

MOST_TRIED = 4


def one(trial: Trial) -> Plan | None:
    """The lightest victim that is enough alone, where no two others could be lighter together."""
    candidates = trial.candidates
    if trial.demand.count != 1 or trial.right.moves or trial.refusal is not None:
        return None
    if trial.place(()) is not None:
        return None  # it only waits for its turn
    pair = sum(item.weight for item in candidates[:2])
    for item in candidates[:MOST_TRIED]:
        if item.weight > pair:
            return None
        region = np.zeros(len(trial.pool), dtype=np.bool_)
        region[item.placement.nodes] = True
        plan = trial.plan([item], region)
        if plan is not None:
            return plan
    return None
