"""Victims by trying placements only: for gangs whose room cannot be counted node by node."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from l2_aistation.core.pool import Placement

from .candidates import Candidate
from .trial import Trial


def by_trying(trial: Trial) -> Iterator[list[Candidate]]:
    """The lightest ones up to where it works; and those who are where the claimant would be put."""
    low, high = 1, len(trial.candidates)
    while low < high:  # what works with some works with more
        middle = (low + high) // 2
        if trial.place(trial.candidates[:middle]) is None:
            low = middle + 1
        else:
            high = middle
    yield trial.candidates[:low]
    placement = trial.place(trial.candidates)
    if placement is not None:
        yield _there(trial, placement)


def _there(trial: Trial, placement: Placement) -> list[Candidate]:
    there = np.zeros(len(trial.pool), dtype=np.bool_)
    there[placement.nodes] = True
    return [item for item in trial.candidates if there[item.placement.nodes].any()]
