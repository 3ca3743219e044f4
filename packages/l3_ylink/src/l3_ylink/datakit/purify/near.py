"""Near-duplicates: MinHash signatures, LSH bands, and Jaccard similarity to be certain.

A shingle is `n` units in a row.  Of similar documents the best one stays; another is dropped only if its
own similarity to a document that stays was computed and reaches the threshold.  Chains (a like b, b like
c, a unlike c) therefore never take a document with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from l3_ylink.datakit.quality.characters import mix
from l3_ylink.datakit.quality.units import U64, Units

U32 = npt.NDArray[np.uint32]
SEED = 1
MOST_LEADERS = 16
"""Documents of one band that a new one is compared with: enough, as all of them stay apart already."""


def shingles(units: Units, n: int) -> tuple[U64, npt.NDArray[np.int32]]:
    """Hashes of shingles and the text of each; a text shorter than `n` units gives its single units."""
    hashes, first = units.grams(n)
    text_of = units.text_of[first]
    short = np.diff(units.first_unit) < n
    alone = short[units.text_of]
    if not alone.any():
        return hashes, text_of
    hashes = np.concatenate([hashes, units.hash[alone]])
    text_of = np.concatenate([text_of, units.text_of[alone]])
    order = np.argsort(text_of, kind="stable")
    return hashes[order], text_of[order]


def signatures(units: Units, n: int, permutations: int) -> U32:
    """A row of `permutations` minima for each text; a text without units has the largest number throughout.

    The hash family is a*x+b modulo 2^32 with odd a over well mixed x (SplitMix64).
    """
    hashes, text_of = shingles(units, n)
    rows = np.full((units.texts, permutations), np.uint32(0xFFFFFFFF))
    if not len(hashes):
        return rows
    filled, start = np.unique(text_of, return_index=True)
    values = (hashes >> np.uint64(32)).astype(np.uint32)
    factors, offsets = _family(permutations)
    work = np.empty_like(values)
    for k in range(permutations):
        np.multiply(values, factors[k], out=work)
        work += offsets[k]
        rows[filled, k] = np.minimum.reduceat(work, start)
    return rows


@cache
def _family(permutations: int) -> tuple[U32, U32]:
    numbers = mix(np.arange(1, 2 * permutations + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15 + SEED))
    small = (numbers >> np.uint64(32)).astype(np.uint32)
    return small[:permutations] | np.uint32(1), small[permutations:]


def band_keys(rows: U32, bands: int) -> U64:
    """One key for each band of each signature: equal rows of a band, equal key."""
    parts = rows.reshape(len(rows), bands, -1).astype(np.uint64)
    keys = np.zeros((len(rows), bands), np.uint64)
    for k in range(parts.shape[2]):
        keys = mix(keys * np.uint64(0x9E3779B97F4A7C15) + parts[:, :, k])
    return keys


def jaccard(one: U64, other: U64) -> float:
    """|A ∩ B| / |A ∪ B| of two sorted sets of shingles."""
    if not len(one) and not len(other):
        return 0.0
    common = len(np.intersect1d(one, other, assume_unique=True))
    return common / (len(one) + len(other) - common)


class Pair(NamedTuple):
    """A near-duplicate: its row, the row of the document that stays instead, and their similarity."""

    dropped: int
    kept: int
    similarity: float


def find(
    keys: U64, order: Sequence[int], shingle_sets: Callable[[list[int]], dict[int, U64]], threshold: float
) -> list[Pair]:
    """Near-duplicates among the rows of `keys`.

    `order`: rows from best to worst; `shingle_sets(rows)` gives the sorted shingles of the rows that
    share a band with another row, which are the only ones that are compared.
    """
    candidates = _sharing(keys, order)
    if not candidates:
        return []
    sets = shingle_sets(sorted(candidates))
    leaders: list[dict[int, list[int]]] = [{} for _ in range(keys.shape[1])]
    pairs = []
    for row in order:
        if row not in candidates:
            continue
        bands = keys[row].tolist()
        best = _best_leader(row, bands, leaders, sets)
        if best is not None and best.similarity >= threshold:
            pairs.append(best)
            continue
        for band, key in enumerate(bands):
            group = leaders[band].setdefault(key, [])
            if len(group) < MOST_LEADERS:
                group.append(row)
    return pairs


def _sharing(keys: U64, order: Sequence[int]) -> set[int]:
    rows = np.asarray(order, np.int64)
    candidates: set[int] = set()
    for band in range(keys.shape[1]):
        _, where, count = np.unique(keys[rows, band], return_inverse=True, return_counts=True)
        candidates.update(rows[count[where] > 1].tolist())
    return candidates


def _best_leader(
    row: int, bands: list[int], leaders: list[dict[int, list[int]]], sets: dict[int, U64]
) -> Pair | None:
    near = {leader for band, key in enumerate(bands) for leader in leaders[band].get(key, ())}
    compared = [Pair(row, leader, round(jaccard(sets[row], sets[leader]), 4)) for leader in sorted(near)]
    return max(compared, key=lambda pair: pair.similarity, default=None)
