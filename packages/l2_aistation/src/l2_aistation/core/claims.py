"""Claims: places that are kept for a job until those who still sit there have gone.

What a claim names is nobody else's.  Its free part is withdrawn from the pool at once, the rest as
soon as it becomes free; the claim is ripe when all of it is withdrawn.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .pool import Bits, Ints, Placement, Pool


@dataclass(frozen=True, slots=True)
class Claim:
    """A place that is kept for a job: who has to go before, since when, and by which action."""

    placement: Placement
    victims: tuple[str, ...]
    since: float
    action: str = "reclaim"


@dataclass(slots=True, eq=False)
class Hold:
    """What a claim has withdrawn from the pool so far."""

    placement: Placement
    missing: Bits = field(init=False)
    """Of each rank, the accelerators that are still somebody's."""
    pieces: list[Placement] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.missing = self.placement.bits.copy()

    @property
    def complete(self) -> bool:
        """Whether every accelerator is withdrawn."""
        return not self.missing.any()

    def begin(self, pool: Pool) -> None:
        """Withdraws cores and memory (which may leave less than nothing) and what is free."""
        whole = self.placement
        none = np.zeros_like(whole.bits)
        self._piece(pool, Placement(whole.nodes, none, whole.groups, whole.cpu_milli, whole.memory_bytes))
        self.advance(pool)

    def advance(self, pool: Pool) -> None:
        """Withdraws what has become free since."""
        whole = self.placement
        parts = whole.parts
        bits = self.missing & pool.free_bits[whole.nodes]
        bits[parts] = 0
        ranks = np.flatnonzero(bits)
        if len(ranks):
            nothing = np.zeros(len(ranks), dtype=np.int64)
            self._piece(
                pool, Placement(whole.nodes[ranks], bits[ranks], whole.groups[ranks], nothing, nothing)
            )
            self.missing[ranks] &= ~bits[ranks]
        for rank in parts[self.missing[parts] != 0]:
            self._part(pool, int(rank))

    def _part(self, pool: Pool, rank: int) -> None:
        """Withdraws a part of an accelerator if there is room for all of it."""
        piece = part_of_rank(self.placement, rank)
        try:
            self._piece(pool, piece)
        except ValueError:
            return  # there is no room for it yet
        self.missing[rank] = 0

    def _piece(self, pool: Pool, piece: Placement) -> None:
        pool.take(piece)
        self.pieces.append(piece)

    def end(self, pool: Pool) -> None:
        """Gives everything back to the pool."""
        for piece in self.pieces:
            pool.give(piece)
        self.pieces.clear()
        self.missing = self.placement.bits.copy()


def part_of_rank(placement: Placement, rank: int) -> Placement:
    """One rank's part of an accelerator, without its cores and memory."""
    one = slice(rank, rank + 1)
    nothing: Ints = np.zeros(1, dtype=np.int64)
    return Placement(
        placement.nodes[one],
        placement.bits[one],
        placement.groups[one],
        nothing,
        nothing,
        None if placement.share_milli is None else placement.share_milli[one],
        None if placement.share_bytes is None else placement.share_bytes[one],
    )


def room_for(pool: Pool, placement: Placement) -> bool:
    """Whether a placement could be booked now: its nodes in service, and nothing of it held.

    For a claim whose pieces are withdrawn only the nodes and the amounts are left to look at.
    """
    nodes = placement.nodes
    if not pool.usable[nodes].all():
        return False
    return bool((pool.cpu_free[nodes] >= 0).all() and (pool.memory_free[nodes] >= 0).all())
