"""Pools that baselines think with: a copy to look ahead on, and what two pools have in common."""

from __future__ import annotations

from copy import copy

import numpy as np

from l2_aistation.core.pool import Pool


def copy_of(pool: Pool) -> Pool:
    """A pool with books of its own."""
    other = copy(pool)
    for name, value in vars(pool).items():
        if isinstance(value, np.ndarray):
            setattr(other, name, value.copy())
    return other


def meet(first: Pool, second: Pool) -> Pool:
    """A pool in which is free what is free in both."""
    both = copy(first)
    both.free_bits = first.free_bits & second.free_bits
    both.cpu_free = np.minimum(first.cpu_free, second.cpu_free)
    both.memory_free = np.minimum(first.memory_free, second.memory_free)
    return both
