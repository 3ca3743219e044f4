"""Interpolated modified Kneser-Ney smoothing (Chen and Goodman 1998, section 3.5) over counted n-grams.

Below the highest order a word counts by how many different words come before it.  Three discounts an order
follow from how many n-grams were counted once to four times.  What an n-gram that is left out of the model
had goes to its context's back-off weight, so that probabilities still add up to one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .ngram_counts import BEGIN, ROWS_AT_ONCE, U64, Rows, bits_of, pieces

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

FALLBACK = (0.5, 1.0, 1.5)
"""Discounts where the counts of counts say nothing (a tiny or an artificial corpus)."""

MOST_COUNTED = 1_000
NEVER = -99.0
"""The log probability of the beginning of a sentence, which nothing predicts."""


class Order(NamedTuple):
    """The n-grams of one order, sorted by key: log10 probabilities and log10 back-off weights."""

    key: U64
    probability: F64
    backoff: F64


class Estimate(NamedTuple):
    """A model's orders, lowest first, its discounts and from which count an n-gram is in it."""

    orders: list[Order]
    discounts: list[tuple[float, float, float]]
    least: list[int]


def discounts(counts_of_counts: npt.NDArray[np.int64]) -> tuple[float, float, float]:
    """D1, D2 and D3+ from how many n-grams have the counts 1, 2, 3 and 4 (equations 26 of the paper)."""
    n1, n2, n3, n4 = (int(value) for value in counts_of_counts[1:5])
    if not min(n1, n2, n3, n4):
        return FALLBACK
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    if any(not 0 <= value <= place for place, value in enumerate(found, 1)):
        return FALLBACK
    return found


def estimate(files: Mapping[int, Path], vocabulary: int, most: int, rows: int = ROWS_AT_ONCE) -> Estimate:
    """The model of merged counts; at most `most` n-grams an order (single words are never left out).

    `vocabulary`: word numbers in use, the special ones included.  Memory: what is in the model and one
    piece of the counts.
    """
    order = max(files)
    bits = bits_of(order)
    scans = [_scan(files[n], n, order, bits, rows) for n in range(1, order + 1)]
    cuts = [discounts(of_left) for of_left, _ in scans]
    least = [1]
    for _, of_raw in scans[1:]:
        least.append(_least(of_raw, most, least[-1]))
    orders = [_unigrams(files[1], order, vocabulary, cuts[0], rows)]
    for n in range(2, order + 1):
        orders.append(_higher(files[n], n, order, cuts[n - 1], least[n - 1], orders[-1], rows))
        orders[-2] = orders[-2]._replace(backoff=orders[-1].backoff)
        orders[-1] = orders[-1]._replace(backoff=np.zeros(len(orders[-1].key)))
    return Estimate(orders, cuts, least)


def _counts(rows: Rows, n: int, order: int, bits: int) -> I64:
    """What counts: occurrences in the highest order and at a sentence's beginning, else words before."""
    raw, left = rows["raw"].astype(np.int64), rows["left"].astype(np.int64)
    if n == order:
        return raw
    return np.where(rows["key"] >> np.uint64(bits * (n - 1)) == BEGIN, raw, left)


def _scan(path: Path, n: int, order: int, bits: int, rows: int) -> tuple[I64, I64]:
    """How many n-grams have each count, by what counts and by occurrences."""
    of_counts, of_raw = np.zeros(MOST_COUNTED + 1, np.int64), np.zeros(MOST_COUNTED + 1, np.int64)
    for some in pieces(path, rows, 0):
        of_counts += _histogram(_counts(some, n, order, bits))
        of_raw += _histogram(some["raw"].astype(np.int64))
    return of_counts, of_raw


def _histogram(values: I64) -> I64:
    return np.bincount(np.minimum(values, MOST_COUNTED), minlength=MOST_COUNTED + 1)


def _least(of_raw: I64, most: int, floor: int) -> int:
    """The lowest count from which at most `most` n-grams are left; never below the order before."""
    left = np.cumsum(of_raw[::-1])[::-1]
    return max(int(np.searchsorted(-left, -most)), floor, 1)


def _discount(counts: I64, cuts: tuple[float, float, float]) -> F64:
    table = np.array([0.0, *cuts])
    found: F64 = table[np.minimum(counts, 3)]
    return found


def _unigrams(path: Path, order: int, vocabulary: int, cuts: tuple[float, float, float], rows: int) -> Order:
    counts = np.zeros(vocabulary, np.int64)
    for some in pieces(path, rows, 0):
        counts[some["key"].astype(np.int64)] = _counts(some, 1, order, 32)
    if order == 1:
        cuts = (0.0, 0.0, 0.0) if not counts.any() else cuts
    total = max(int(counts.sum()), 1)
    alpha = (counts - _discount(counts, cuts)) / total
    gamma = 1 - float(alpha.sum())
    uniform = gamma / (vocabulary - 1)  # every word but the beginning of a sentence
    with np.errstate(divide="ignore"):
        probability = np.log10(alpha + uniform)
    probability[BEGIN] = NEVER
    return Order(np.arange(vocabulary, dtype=np.uint64), np.maximum(probability, NEVER), np.zeros(vocabulary))


def _higher(
    path: Path, n: int, order: int, cuts: tuple[float, float, float], least: int, lower: Order, rows: int
) -> Order:
    """The n-grams of an order; `backoff` of the answer belongs to the order below, its contexts."""
    bits = bits_of(order)
    keys, alphas = [], []
    backoff = np.zeros(len(lower.key))
    for some in pieces(path, rows, bits):
        counts = _counts(some, n, order, bits)
        context = some["key"] >> np.uint64(bits)
        first = np.flatnonzero(np.concatenate([[True], context[1:] != context[:-1]]))
        total = np.add.reduceat(counts, first)
        stays = some["raw"] >= least
        mass = np.where(stays, counts - _discount(counts, cuts), 0.0)
        gamma = 1 - np.add.reduceat(mass, first) / total
        at, known = find(lower.key, context[first])
        with np.errstate(divide="ignore"):
            backoff[at[known]] = np.maximum(np.log10(gamma[known]), NEVER)
        group = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(some))))
        keys.append(some["key"][stays])
        alphas.append((mass / total[group])[stays])
    key = np.concatenate([np.zeros(0, np.uint64), *keys])
    alpha = np.concatenate([np.zeros(0), *alphas])
    suffix, _ = find(lower.key, key & np.uint64((1 << (bits * (n - 1))) - 1))
    context_at, _ = find(lower.key, key >> np.uint64(bits))
    below = 10 ** (backoff[context_at] + lower.probability[suffix])
    with np.errstate(divide="ignore"):
        probability = np.maximum(np.log10(alpha + below), NEVER)
    return Order(key, probability, backoff)


def find(sorted_keys: U64, wanted: U64) -> tuple[I64, npt.NDArray[np.bool_]]:
    """Where keys lie in a sorted row, and whether they are there."""
    at = np.minimum(np.searchsorted(sorted_keys, wanted), max(len(sorted_keys) - 1, 0)).astype(np.int64)
    return at, (sorted_keys[at] == wanted) if len(sorted_keys) else np.zeros(len(wanted), bool)
