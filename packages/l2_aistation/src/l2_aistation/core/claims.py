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
    """What a claim has withdrawn from the pool so far: its cores and memory, accelerators, parts of them."""

    placement: Placement
    missing: Bits = field(init=False)
    """Of each rank, the accelerators that are still somebody's."""
    amounts: Placement | None = None
    whole: Placement | None = None
    parts: dict[int, Placement] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.missing = self.placement.bits.copy()

    def copy(self) -> Hold:
        """The same, on its own: for a copy of the pool."""
        made = Hold(self.placement)
        made.missing = self.missing.copy()
        made.amounts, made.whole, made.parts = self.amounts, self.whole, dict(self.parts)
        return made

    @property
    def complete(self) -> bool:
        """Whether every accelerator is withdrawn."""
        return not self.missing.any()

    @property
    def pieces(self) -> list[Placement]:
        """All that is withdrawn."""
        return [item for item in (self.amounts, self.whole, *self.parts.values()) if item is not None]

    def begin(self, pool: Pool) -> None:
        """Withdraws cores and memory (which may leave less than nothing) and what is free."""
        place = self.placement
        none = np.zeros_like(place.bits)
        self.amounts = Placement(place.nodes, none, place.groups, place.cpu_milli, place.memory_bytes)
        pool.take(self.amounts)
        self.advance(pool)

    def advance(self, pool: Pool) -> None:
        """Withdraws what has become free since."""
        place = self.placement
        parts = place.parts
        bits = self.missing & pool.free_bits[place.nodes]
        bits[parts] = 0
        if bits.any():
            self._withdraw(pool, bits)
        for rank in parts[self.missing[parts] != 0].tolist():
            piece = part_of_rank(place, rank)
            try:
                pool.take(piece)
            except ValueError:
                continue  # there is no room for all of it yet
            self.parts[rank] = piece
            self.missing[rank] = 0

    def _withdraw(self, pool: Pool, bits: Bits) -> None:
        """One piece holds all whole accelerators, however they came."""
        if self.whole is not None:
            with_grown = pool.grown
            pool.give(self.whole)
            pool.grown = with_grown  # nobody else could have it
        self.missing &= ~bits
        place = self.placement
        held = place.bits & ~self.missing
        held[place.parts] = 0
        ranks = np.flatnonzero(held)
        nothing = np.zeros(len(ranks), dtype=np.int64)
        self.whole = Placement(place.nodes[ranks], held[ranks], place.groups[ranks], nothing, nothing)
        pool.take(self.whole)

    def end(self, pool: Pool) -> None:
        """Gives everything back to the pool."""
        for piece in self.pieces:
            pool.give(piece)
        self.amounts, self.whole = None, None
        self.parts.clear()
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
