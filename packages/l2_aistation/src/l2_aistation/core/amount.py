"""How much a job, a queue or a user holds, in exact integers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from .pool import Placement, Pool, Totals

WHOLE = 1000
"""Thousandths of one accelerator."""

DIMENSIONS = ("accelerators", "cpu", "memory")
"""What a share can be of."""


@dataclass(slots=True)
class Amount:
    """Thousandths of accelerators (in all and by model), thousandths of cores, bytes, and jobs."""

    accelerator_milli: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    models: dict[str, int] = field(default_factory=dict)
    jobs: int = 0

    @property
    def accelerators(self) -> float:
        """Accelerators: a whole number where no part is among them."""
        whole, rest = divmod(self.accelerator_milli, WHOLE)
        return self.accelerator_milli / WHOLE if rest else whole

    def add(self, other: Amount, sign: int = 1) -> None:
        """Adds another amount, or takes it off."""
        self.accelerator_milli += sign * other.accelerator_milli
        self.cpu_milli += sign * other.cpu_milli
        self.memory_bytes += sign * other.memory_bytes
        self.jobs += sign * other.jobs
        for model, milli in other.models.items():
            left = self.models.get(model, 0) + sign * milli
            if left:
                self.models[model] = left
            else:
                self.models.pop(model, None)

    def copy(self) -> Amount:
        """The same amount, on its own."""
        return Amount(self.accelerator_milli, self.cpu_milli, self.memory_bytes, dict(self.models), self.jobs)

    def dominant_share(self, of: Totals, unlimited: Collection[str] = ()) -> float:
        """The largest share of any one resource of the pool (DRF, Ghodsi et al., NSDI 2011).

        A resource that the pool has none of, or that is `unlimited`, has no share.
        """
        most = 0.0
        if of.accelerators and "accelerators" not in unlimited:
            most = self.accelerator_milli / (of.accelerators * WHOLE)
        if of.cpu_milli and "cpu" not in unlimited:
            most = max(most, self.cpu_milli / of.cpu_milli)
        if of.memory_bytes and "memory" not in unlimited:
            most = max(most, self.memory_bytes / of.memory_bytes)
        return most


def amount_of(placement: Placement, pool: Pool | None = None) -> Amount:
    """What a placement holds; by model too where the pool is given."""
    milli = placement.held_milli
    amount = Amount(milli, int(placement.cpu_milli.sum()), int(placement.memory_bytes.sum()), jobs=1)
    if pool is None or not milli:
        return amount
    if len(pool.models) == 1:
        amount.models[pool.models[0]] = milli
        return amount
    ranks = np.bitwise_count(placement.bits).astype(np.int64) * WHOLE
    if placement.share_milli is not None:
        ranks = np.where(placement.share_milli > 0, placement.share_milli, ranks)
    for model in pool.models:
        own = np.bitwise_count(placement.bits & pool.bits_of(model)[placement.nodes]).astype(np.int64) * WHOLE
        held = int(np.minimum(own, ranks).sum())
        if held:
            amount.models[model] = held
    return amount
