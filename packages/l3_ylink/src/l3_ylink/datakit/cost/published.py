"""Figures that others published, against which the cost model is checked."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """One line of a published table: bytes, cores, minutes."""

    bytes: float
    cores: int
    minutes: float


DATA_JUICER_MINHASH = (
    Published(200e9, 640, 11.13),
    Published(1e12, 640, 50.83),
    Published(5e12, 640, 285.43),
    Published(200e9, 1280, 7.47),
    Published(1e12, 1280, 30.08),
    Published(5e12, 1280, 168.10),
)
"""MinHash deduplication by data-juicer on Ray (its docs/Distributed.md)."""

GROWTH = (4.02, 5.62)
"""In that table: how many times as long for five times the data."""

DOUBLING = (0.589, 0.671)
"""In that table: the share of the time that is left with twice the cores."""

DATATROVE_MB_S = 0.23
"""MB/s of text a core: datatrove 0.10.1, language, Gopher rules, MinHash and tokens, measured beside ours."""

MDFS_IN, MDFS_OUT = 866e12, 5e12
"""Bytes that the published funnel of the Yuan models read and kept."""
