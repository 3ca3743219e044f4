"""A start that was promised to a job that has to wait."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .pool import Bits, Placement


@dataclass(frozen=True, slots=True)
class Promise:
    """By `at` the job starts on `placement`, kept for it; it is expected to hold it until `until`.

    Seconds since the epoch.  `firm` says that nothing but a lost node, a window or a job of higher
    right can break it: whoever holds the place now ends by a limit or may be evicted.
    """

    job: str
    at: float
    until: float
    placement: Placement
    firm: bool = True

    def by_node(self, nodes: int) -> Bits:
        """The promised accelerators of each of so many nodes."""
        taken = np.zeros(nodes, dtype=np.uint64)
        np.bitwise_or.at(taken, self.placement.nodes, self.placement.bits)
        return taken
