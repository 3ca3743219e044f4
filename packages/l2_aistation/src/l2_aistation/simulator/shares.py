"""Who has how much over time, against what is due to each queue at that moment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .results import Floats, jain

EVERY_S = 600.0
"""Virtual time between two looks."""

HALVINGS = 50


class Shares:
    """Looks at the queues every ten minutes of the time in which they want more than there is.

    Due to a queue is its part of a max-min fair division: what it is guaranteed, as far as it wants
    that, and beyond it as much as any other (Bertsekas and Gallager, Data Networks, 6.5.2).
    """

    def __init__(self, queues: Sequence[str], capacity: float, start_s: float) -> None:
        self.place = {name: number for number, name in enumerate(queues)}
        self.capacity = capacity
        self.wanted = np.zeros(len(queues))
        self.held = np.zeros(len(queues))
        self.guarantee = np.zeros(len(queues))
        self.next_s = start_s + EVERY_S
        self.looks = 0
        self.fairness_sum = 0.0
        self.sure_sum = self.missing_sum = 0.0

    def want(self, queue: str, accelerators: float) -> None:
        """Jobs of a queue that wait or run ask for so many more."""
        self.wanted[self.place[queue]] += accelerators

    def hold(self, queue: str, accelerators: float) -> None:
        """They have so many more."""
        self.held[self.place[queue]] += accelerators

    def sure(self, queue: str, accelerators: float) -> None:
        """A queue is guaranteed so many from now on."""
        self.guarantee[self.place[queue]] = accelerators

    def advance(self, to_s: float) -> None:
        """Nothing changed from the last call until `to_s`."""
        if to_s < self.next_s:
            return
        looks = int((to_s - self.next_s) // EVERY_S) + 1
        self.next_s += looks * EVERY_S
        if self.wanted.sum() <= self.capacity:
            return
        due = fair_division(self.wanted, self.guarantee, self.capacity)
        asks = due > 0
        sure = np.minimum(self.wanted, self.guarantee)
        self.looks += looks
        self.fairness_sum += looks * jain(self.held[asks] / due[asks])
        self.sure_sum += looks * float(sure.sum())
        self.missing_sum += looks * float(np.maximum(sure - self.held, 0).sum())

    @property
    def fairness(self) -> float:
        """The mean of Jain's index of held / due; 1 where nobody ever wanted more than there is."""
        return self.fairness_sum / self.looks if self.looks else 1.0

    @property
    def missing(self) -> float:
        """Of what was guaranteed and wanted, the part that was not had."""
        return self.missing_sum / self.sure_sum if self.sure_sum else 0.0


def fair_division(wanted: Floats, guarantee: Floats, capacity: float) -> Floats:
    """Each gets what it wants, but no more than its guarantee or one level for all, whichever is more."""
    low, high = 0.0, capacity
    for _ in range(HALVINGS):
        level = (low + high) / 2
        if np.minimum(wanted, np.maximum(guarantee, level)).sum() > capacity:
            high = level
        else:
            low = level
    due: Floats = np.minimum(wanted, np.maximum(guarantee, low))
    return due
