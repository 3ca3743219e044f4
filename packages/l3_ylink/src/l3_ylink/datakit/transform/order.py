"""Random orders that are functions of a seed: of any size, without holding them in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
ROUNDS = 6
LEAST_HALF = 4
"""Bits of half a block at least: networks on fewer bits do not reach every order."""

Numbers = npt.NDArray[np.uint64]


def mix_bits(values: Numbers) -> Numbers:
    """SplitMix64's finaliser (Steele, Lea, Flood 2014): each bit depends on every bit."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def row_keys(first: int, count: int, seed: int) -> Numbers:
    """A random 64-bit key for each of the rows `first` … `first + count - 1`."""
    start = mix_bits(np.full(1, seed % 2**64, np.uint64) * GOLDEN + GOLDEN)
    return mix_bits(start + (np.arange(count, dtype=np.uint64) + np.uint64(first)) * GOLDEN)


class Permutation:
    """An order of 0 … n-1: `order(positions)` gives what stands there.  Takes no memory.

    A Feistel network over the next even number of bits; what falls outside is sent through again
    (cycle walking; Black and Rogaway 2002), so that it is one to one on 0 … n-1.
    """

    def __init__(self, count: int, seed: int) -> None:
        self.count = count
        self.half = np.uint64(max(LEAST_HALF, ((count - 1).bit_length() + 1) // 2))
        self.low = (np.uint64(1) << self.half) - np.uint64(1)
        self.keys = row_keys(0, ROUNDS, seed)

    def __call__(self, positions: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
        values = self._through(positions.astype(np.uint64))
        outside = np.flatnonzero(values >= self.count)
        while len(outside):
            values[outside] = self._through(values[outside])
            outside = outside[values[outside] >= self.count]
        return values.astype(np.int64)

    def _through(self, values: Numbers) -> Numbers:
        left, right = values >> self.half, values & self.low
        for key in self.keys:
            left, right = right, left ^ (mix_bits(right + key) & self.low)
        return (left << self.half) | right
