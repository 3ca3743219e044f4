"""Near-duplicates: MinHash signatures, LSH bands, and Jaccard similarity to be certain.

A shingle is `n` units in a row.  Of similar documents the best one stays; another is dropped only if its
own similarity to a document that stays was computed and reaches the threshold.  Chains (a like b, b like
c, a unlike c) therefore never take a document with them.  Everything large lies on disk: band keys, pairs
and shingles; in memory is one flag a document.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from l3_ylink.datakit.quality import loops
from l3_ylink.datakit.quality.characters import mix
from l3_ylink.datakit.quality.units import U64, Units

U32 = npt.NDArray[np.uint32]
SEED = 1
MOST_LEADERS = 16
"""Documents of one band that a new one is compared with: enough, as all of them stay apart already."""


def shingles(units: Units, n: int) -> tuple[U32, npt.NDArray[np.int64]]:
    """Shingles (32 bits of their hashes) text after text, and where each text's begin, with the end.

    A text shorter than `n` units gives its single units.
    """
    out = np.empty(len(units.hash), np.uint32)
    edges = np.empty(units.texts + 1, np.int64)
    count = loops.shingles_of(units.hash, units.first_unit, n, out, edges)
    return out[:count], edges


def signatures(units: Units, n: int, permutations: int) -> U32:
    """A row of `permutations` minima for each text; a text without units has the largest number throughout.

    The hash family is a*x+b modulo 2^32 with odd a over well mixed x (SplitMix64).
    """
    rows = np.full((units.texts, permutations), np.uint32(0xFFFFFFFF))
    loops.minima(units.hash, units.first_unit, n, *_family(permutations), rows)
    return rows


@cache
def _family(permutations: int) -> tuple[U32, U32]:
    numbers = mix(np.arange(1, 2 * permutations + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15 + SEED))
    small = (numbers >> np.uint64(32)).astype(np.uint32)
    return small[:permutations] | np.uint32(1), small[permutations:]


def band_keys(rows: U32, bands: int) -> U64:
    """One key for each band of each signature: equal rows of the same band, equal key."""
    parts = rows.reshape(len(rows), bands, -1).astype(np.uint64)
    keys = np.tile(np.arange(bands, dtype=np.uint64), (len(rows), 1))
    for k in range(parts.shape[2]):
        keys = mix(keys * np.uint64(0x9E3779B97F4A7C15) + parts[:, :, k])
    return keys


PAIR = np.dtype([("key", np.uint64), ("better", np.int64), ("worse", np.int64), ("rank", np.uint64)])
"""Two documents that share a band; `rank` is the place of the worse one in the order of worth."""

EDGE = np.dtype([("key", np.uint64), ("worse", np.int64), ("better", np.int64), ("similarity", np.float64)])
"""Two documents whose similarity was computed and reaches the threshold; `key` is the worse one's rank."""


def rank_of(worth: npt.NDArray[np.float64]) -> U64:
    """Worth (between -64 and 64) as a number from 1 on that is smaller for the better; it fills 64 bits."""
    return ((64.0 - np.clip(worth, -64, 64)) * float(1 << 56)).astype(np.uint64) + np.uint64(1)


def pairs_of(part: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Pairs to compare among band records sorted by key, rank and row.

    In a group of equal keys each document meets the best `MOST_LEADERS` and the one just before it.
    """
    group = np.flatnonzero(np.concatenate([np.ones(1, bool), part["key"][1:] != part["key"][:-1]]))
    first = np.repeat(group, np.diff(np.concatenate([group, [len(part)]])))
    place = np.arange(len(part)) - first
    met = np.minimum(place, MOST_LEADERS + 1)
    worse = np.repeat(np.arange(len(part)), met)
    nth = np.arange(len(worse)) - np.repeat(np.cumsum(met) - met, met)
    better = np.where(nth == MOST_LEADERS, worse - 1, first[worse] + nth)
    pairs = np.empty(len(worse), PAIR)
    pairs["better"], pairs["worse"] = part["row"][better], part["row"][worse]
    pairs["rank"] = part["rank"][worse]
    pairs["key"] = mix(mix(pairs["better"].astype(np.uint64)) + pairs["worse"].astype(np.uint64))
    return pairs


class ShingleFile:
    """The sorted shingles (32 bits of their hashes) of some documents on disk, found by row."""

    def __init__(self, folder: Path) -> None:
        self._data = open(folder / "shingles.bin", "w+b")  # noqa: SIM115 (closed by `close`)
        self._index = open(folder / "shingles.idx", "w+b")  # noqa: SIM115
        self._end = 0

    def add(self, row: int, hashes: U32) -> None:
        """Stores a document's shingles."""
        values = np.unique(hashes)
        self._index.seek(row * 16)
        np.asarray([self._end, len(values)], np.int64).tofile(self._index)
        values.tofile(self._data)
        self._end += values.nbytes

    def get(self, row: int) -> U32:
        """A document's shingles."""
        start, count = np.frombuffer(os.pread(self._index.fileno(), 16, row * 16), np.int64).tolist()
        return np.frombuffer(os.pread(self._data.fileno(), count * 4, start), np.uint32)

    def flush(self) -> None:
        """Makes what was added readable."""
        self._index.flush()
        self._data.flush()

    def close(self) -> None:
        """Removes the files."""
        for stream in (self._data, self._index):
            stream.close()
            Path(stream.name).unlink()


def jaccard(one: U32, other: U32) -> float:
    """|A ∩ B| / |A ∪ B| of two sorted sets of shingles."""
    if not len(one) and not len(other):
        return 0.0
    common = int(loops.common(one, other))
    return common / (len(one) + len(other) - common)


def edges_of(pairs: npt.NDArray[Any], shingle_file: ShingleFile, threshold: float) -> npt.NDArray[Any]:
    """The pairs (sorted by their better document) that reach the threshold, with their similarity."""
    similarity = np.zeros(len(pairs))
    held, mine = -1, np.zeros(0, np.uint32)
    for place, (better, worse) in enumerate(
        zip(pairs["better"].tolist(), pairs["worse"].tolist(), strict=True)
    ):
        if better != held:
            held, mine = better, shingle_file.get(better)
        other = shingle_file.get(worse)
        if min(len(mine), len(other)) >= threshold * max(len(mine), len(other)):
            similarity[place] = jaccard(mine, other)
    found = np.flatnonzero((similarity >= threshold) & (similarity > 0))
    edges = np.empty(len(found), EDGE)
    edges["key"], edges["similarity"] = pairs["rank"][found], similarity[found]
    edges["better"], edges["worse"] = pairs["better"][found], pairs["worse"][found]
    return edges


def leave_best(edges: npt.NDArray[Any], gone: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Of edges sorted by rank, worse document and better document: one for each document that goes.

    A document goes if one that is better, similar and itself stays is there; the most similar is named.
    `gone` (a flag for each document) is carried from part to part.
    """
    chosen: list[int] = []
    worse, better, similarity = (
        edges["worse"].tolist(),
        edges["better"].tolist(),
        edges["similarity"].tolist(),
    )
    at = 0
    while at < len(edges):
        best = -1
        row = worse[at]
        while at < len(edges) and worse[at] == row:
            if not gone[better[at]] and (best < 0 or similarity[at] > similarity[best]):
                best = at
            at += 1
        if best >= 0:
            gone[row] = True
            chosen.append(best)
    return edges[chosen]
