"""What a placement costs on the network: bytes of a ring all-reduce that cross leaves."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from l2_aistation.core.pool import Placement, Pool


def crossings(switches: Sequence[Hashable]) -> int:
    """Edges of the ring over ranks, in rank order and closed, whose ends are under unlike switches."""
    return sum(here != switches[number - 1] for number, here in enumerate(switches))


def ring_bytes_of(switches: Sequence[Hashable], payload_bytes: int) -> int:
    """Bytes that cross switches in one ring all-reduce of `payload_bytes` over ranks under `switches`.

    Each of the n ranks sends 2 (n - 1) / n of the payload to the next one (Patarasuk and Yuan, 2009).
    """
    ranks = len(switches)
    if ranks < 2:
        return 0
    return crossings(switches) * 2 * (ranks - 1) * payload_bytes // ranks


def ring_bytes(pool: Pool, placement: Placement, payload_bytes: int) -> int:
    """Bytes that cross leaves in one ring all-reduce over the placed gang."""
    return ring_bytes_of(pool.leaf[placement.nodes].tolist(), payload_bytes)
