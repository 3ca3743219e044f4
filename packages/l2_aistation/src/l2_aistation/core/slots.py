"""Where a gang is: as arrays over its ranks, and in words rank by rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .devices import WHOLE, Bits, Ints


@dataclass(slots=True, unsafe_hash=True)
class Slot:
    """What one rank holds on one node: thousandths of a core, bytes, accelerators.

    With `accelerator_milli` or `accelerator_bytes` it holds that part of its one accelerator: so many
    thousandths of the device and so many bytes of its memory; without, the whole ones.  Nobody changes
    one; it is not frozen because a large gang has a thousand, each made three times as fast like this.
    """

    rank: int
    task: str
    node: str
    cpu_milli: int
    memory_bytes: int
    accelerators: tuple[int, ...] = ()
    accelerator_milli: int = 0
    accelerator_bytes: int = 0

    @property
    def share(self) -> float:
        """The share of each of its accelerators; a part too small to count is a thousandth."""
        if not (self.accelerator_milli or self.accelerator_bytes):
            return 1.0
        return max(self.accelerator_milli, 1) / WHOLE


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where a gang is, as arrays over its ranks: node, accelerators, group of tasks, shares.

    A rank with `share_milli` or `share_bytes` above 0 holds that part of its one accelerator; None
    where no rank of the gang does.
    """

    nodes: Ints
    bits: Bits
    groups: Ints
    cpu_milli: Ints
    memory_bytes: Ints
    share_milli: Ints | None = None
    share_bytes: Ints | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def parts(self) -> Ints:
        """The ranks that hold a part of an accelerator."""
        if self.share_milli is None or self.share_bytes is None:
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(self.share_milli | self.share_bytes)

    @property
    def held_milli(self) -> int:
        """Thousandths of accelerators that the gang holds."""
        whole = int(np.bitwise_count(self.bits).sum()) * WHOLE
        if self.share_milli is None:
            return whole
        parts = self.parts
        return whole - len(parts) * WHOLE + int(self.share_milli[parts].sum())


def parts_of(placement: Placement, parts: Ints) -> tuple[Ints, Bits, Ints, Ints, Ints]:
    """Of the ranks that hold parts: node, bit, place, thousandths, bytes."""
    bits = placement.bits[parts]
    if (np.bitwise_count(bits) != 1).any():
        raise ValueError("a part is of exactly one accelerator")
    places = np.bitwise_count(bits - np.uint64(1)).astype(np.int64)
    assert placement.share_milli is not None
    assert placement.share_bytes is not None
    return placement.nodes[parts], bits, places, placement.share_milli[parts], placement.share_bytes[parts]


def merged(placements: Sequence[Placement]) -> Placement:
    """Placements as one, ranks one after the other; each one's ranks become a group of its own."""
    shares = any(part.share_milli is not None for part in placements)
    return Placement(
        np.concatenate([part.nodes for part in placements]),
        np.concatenate([part.bits for part in placements]),
        np.repeat(np.arange(len(placements), dtype=np.int64), [len(part) for part in placements]),
        np.concatenate([part.cpu_milli for part in placements]),
        np.concatenate([part.memory_bytes for part in placements]),
        np.concatenate([_or_none(part.share_milli, part) for part in placements]) if shares else None,
        np.concatenate([_or_none(part.share_bytes, part) for part in placements]) if shares else None,
    )


def _or_none(amounts: Ints | None, placement: Placement) -> Ints:
    return np.zeros(len(placement), dtype=np.int64) if amounts is None else amounts


@lru_cache(maxsize=1 << 16)
def bit_places(bits: int) -> tuple[int, ...]:
    """The places of the ones of a word, lowest first."""
    return tuple(place for place in range(bits.bit_length()) if bits >> place & 1)
