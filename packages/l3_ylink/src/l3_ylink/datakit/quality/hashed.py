"""A linear classifier over hashed words and pairs of words: small, fast, learned in seconds.

A text's score for a label is the sum of the weights of its units and pairs of units (Chinese: characters
and pairs of characters), each hashed into a bucket, over the square root of their number; a softmax makes
probabilities of them.  Weights are learned by AdaGrad (Duchi, Hazan and Singer 2011), one text at a time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from .characters import mix
from .units import Units

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]

INITIAL = 0.1
"""AdaGrad's sums begin here, so that the first steps are those of plain gradient descent."""

PAIR = np.uint64(0xD6E8FEB86659FD93)


@njit("u8(u8)", cache=True, inline="always")
def _mix(value):  # type: ignore[no-untyped-def]
    value ^= value >> np.uint64(30)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(27)
    value *= np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@njit("Tuple((u4[::1], i8[::1]))(u8[::1], i8[::1], i8[::1], u8)", cache=True)
def _buckets(hashes, first, counts, mask):  # type: ignore[no-untyped-def]
    start = np.zeros(len(counts) + 1, np.int64)
    for text in range(len(counts)):
        start[text + 1] = start[text] + max(2 * counts[text] - 1, 0)
    found = np.empty(start[-1], np.uint32)
    for text in range(len(counts)):
        place = start[text]
        before = np.uint64(0)
        for number in range(counts[text]):
            value = hashes[first[text] + number]
            found[place] = _mix(value) & mask
            place += 1
            if number:
                found[place] = _mix(before * PAIR + value) & mask
                place += 1
            before = value
    return found, start


def buckets(units: Units, bits: int, longest: int) -> tuple[U32, I64]:
    """The buckets of each text's units and pairs of units, and where each text's begin.

    Only the first `longest` units of a text are looked at.
    """
    first, last = units.first_unit[:-1], units.first_unit[1:]
    counts = np.minimum(last - first, longest)
    mask = np.uint64((1 << bits) - 1)
    found: tuple[U32, I64] = _buckets(units.hash, first.astype(np.int64), counts.astype(np.int64), mask)
    return found


def buckets_in_numpy(units: Units, bits: int, longest: int) -> tuple[U32, I64]:
    """The same as `buckets`, to be read and compared with."""
    mask = np.uint64((1 << bits) - 1)
    parts = []
    for text in range(units.texts):
        mine = units.hash[units.first_unit[text] : units.first_unit[text + 1]][:longest]
        row = np.empty(max(2 * len(mine) - 1, 0), np.uint64)
        row[:1] = mix(mine[:1])
        row[1::2] = mix(mine[1:])
        row[2::2] = mix(mine[:-1] * PAIR + mine[1:])
        parts.append(row & mask)
    start = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return np.concatenate([np.zeros(0, np.uint64), *parts]).astype(np.uint32), start


def probabilities(found: U32, start: I64, weights: F32, bias: F64) -> F64:
    """Of each text, the probability of each label; `weights` has a row a bucket and a column a label."""
    return _softmax(_logits(found, start, weights, bias))


@njit("f8[:, ::1](u4[::1], i8[::1], f4[:, ::1], f8[::1])", cache=True)
def _logits(found, start, weights, bias):  # type: ignore[no-untyped-def]
    labels = len(bias)
    sums = np.zeros((len(start) - 1, labels))
    for text in range(len(start) - 1):
        for place in range(start[text], start[text + 1]):
            for label in range(labels):
                sums[text, label] += weights[found[place], label]
        scale = 1 / np.sqrt(max(start[text + 1] - start[text], 1))
        for label in range(labels):
            sums[text, label] = sums[text, label] * scale + bias[label]
    return sums


def logits_in_numpy(found: U32, start: I64, weights: F32, bias: F64) -> F64:
    """The same as the compiled sums, to be read and compared with."""
    rows = [
        weights[found[low:high]].astype(np.float64).sum(0) / np.sqrt(max(high - low, 1)) + bias
        for low, high in zip(start[:-1].tolist(), start[1:].tolist(), strict=True)
    ]
    return np.stack(rows) if rows else np.zeros((0, len(bias)))


def _softmax(logits: F64) -> F64:
    powers = np.exp(logits - logits.max(1, keepdims=True)) if len(logits) else logits
    found: F64 = powers / powers.sum(1, keepdims=True)
    return found


@njit(
    "void(u4[::1], i8[::1], i4[::1], i8[::1], f8[::1], f4[:, ::1], f4[:, ::1], f8[::1], f8[::1], f8)",
    cache=True,
)
def _epoch(found, start, truth, order, share, weights, squares, bias, bias_squares, rate):  # type: ignore[no-untyped-def]  # noqa: PLR0917
    labels = len(bias)
    logits = np.empty(labels)
    for text in order:
        low, high = start[text], start[text + 1]
        scale = 1 / np.sqrt(max(high - low, 1))
        logits[:] = 0
        for place in range(low, high):
            for label in range(labels):
                logits[label] += weights[found[place], label]
        for label in range(labels):
            logits[label] = logits[label] * scale + bias[label]
        logits = np.exp(logits - logits.max())
        logits /= logits.sum()
        for label in range(labels):
            slope = (logits[label] - (truth[text] == label)) * share[truth[text]]
            bias_squares[label] += slope * slope
            bias[label] -= rate * slope / np.sqrt(bias_squares[label])
            slope *= scale
            square = slope * slope
            for place in range(low, high):
                bucket = found[place]
                squares[bucket, label] += square
                weights[bucket, label] -= rate * slope / np.sqrt(squares[bucket, label])


def learn(
    found: U32,
    start: I64,
    truth: npt.NDArray[np.int32],
    labels: int,
    *,
    bits: int,
    epochs: int,
    rate: float,
    seed: int,
) -> tuple[F32, F64]:
    """Weights and biases learned from texts whose label numbers are `truth`: the same for the same seed."""
    weights = np.zeros((1 << bits, labels), np.float32)
    squares = np.full((1 << bits, labels), INITIAL, np.float32)
    bias, bias_squares = np.zeros(labels), np.full(labels, INITIAL)
    share = len(truth) / np.maximum(np.bincount(truth, minlength=labels), 1) / labels
    draw = np.random.default_rng(seed)
    for epoch in range(epochs):
        order = draw.permutation(len(truth))
        _epoch(
            found, start, truth, order, share, weights, squares, bias, bias_squares, rate / (1 + epoch / 2)
        )
    return weights, bias
