"""Packing: documents are laid into sequences of one length so that few are cut and little is padded.

Best fit decreasing (Ding et al. 2024, arXiv 2404.10830): a document longer than a sequence is cut into
pieces of that length; then pieces, longest first, go each into the fullest sequence that still has room.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from .order import row_keys

Integers = npt.NDArray[np.int64]


class Pieces(NamedTuple):
    """Parts of documents, none longer than a sequence: which document, from where in it, how long."""

    document: Integers
    start: Integers
    length: Integers


class Layout(NamedTuple):
    """Pieces in the order in which they are laid down, and the sequence that each is in."""

    pieces: Pieces
    sequence: Integers

    @property
    def sequences(self) -> int:
        """How many there are."""
        return int(self.sequence[-1]) + 1 if len(self.sequence) else 0


def cut(lengths: npt.NDArray[np.integer[Any]], size: int) -> Pieces:
    """Documents of these lengths as pieces of at most `size`; empty documents have none."""
    counts = -(-lengths.astype(np.int64) // size)
    document = np.repeat(np.arange(len(lengths)), counts)
    first = np.cumsum(counts) - counts
    start = (np.arange(len(document)) - first[document]) * size
    return Pieces(document, start, np.minimum(lengths[document] - start, size))


def pack(lengths: npt.NDArray[np.integer[Any]], size: int, seed: int) -> Layout:
    """Lays documents of these lengths into sequences of `size` tokens.

    Best fit opens sequences longest documents first, which is no order to learn in: the sequences are
    shuffled by `seed`.  Inside a sequence the pieces come in the order of the input.
    """
    pieces = cut(lengths, size)
    sequence = best_fit(pieces.length, size)
    count = int(sequence.max()) + 1 if len(sequence) else 0
    place = np.empty(count, np.int64)
    place[np.argsort(row_keys(0, count, seed), kind="stable")] = np.arange(count)
    sequence = place[sequence]
    order = np.argsort(sequence, kind="stable")
    return Layout(Pieces(*(column[order] for column in pieces)), sequence[order])


def best_fit(lengths: Integers, size: int) -> Integers:
    """The sequence of each piece; among equally full ones the one that was filled last."""
    order = np.argsort(-lengths, kind="stable")
    leaves = 1 << max(1, size.bit_length())
    placed: Integers = _place(lengths.astype(np.int64), order, size, leaves)
    return placed


@numba.njit(cache=True)
def _place(lengths: Any, order: Any, size: int, leaves: int) -> Any:  # pragma: no cover (compiled)
    """A tree over room left tells the tightest room that is enough; equal rooms are a linked stack."""
    placed = np.empty(len(lengths), np.int64)
    tree = np.zeros(2 * leaves, np.uint8)
    head = np.full(size + 1, -1, np.int64)
    below = np.full(len(lengths), -1, np.int64)
    opened = 0
    for item in order:
        length = lengths[item]
        room = _next(tree, leaves, length)
        if room < 0:
            room, number = size, opened
            opened += 1
        else:
            number = head[room]
            head[room] = below[number]
            if head[room] < 0:
                _mark(tree, leaves, room, 0)
        placed[item] = number
        left = room - length
        if left > 0:
            below[number] = head[left]
            head[left] = number
            _mark(tree, leaves, left, 1)
    return placed


@numba.njit(cache=True)
def _next(tree: Any, leaves: int, least: int) -> int:  # pragma: no cover (compiled)
    """The smallest marked leaf from `least` on, or -1."""
    node = least + leaves
    if tree[node]:
        return least
    while node > 1:
        if node % 2 == 0 and tree[node + 1]:
            node += 1
            while node < leaves:
                node = 2 * node if tree[2 * node] else 2 * node + 1
            return node - leaves
        node //= 2
    return -1


@numba.njit(cache=True)
def _mark(tree: Any, leaves: int, leaf: int, value: int) -> None:  # pragma: no cover (compiled)
    node = leaf + leaves
    tree[node] = value
    while node > 1:
        node //= 2
        value = tree[2 * node] | tree[2 * node + 1]
        if tree[node] == value:
            return
        tree[node] = value


def best_fit_reference(lengths: Integers, size: int) -> Integers:
    """The same as `best_fit`, as the definition reads; time grows with the square of the pieces."""
    placed = np.empty(len(lengths), np.int64)
    rooms: list[int] = []
    touched: list[int] = []
    for moment, item in enumerate(np.argsort(-lengths, kind="stable").tolist()):
        length = int(lengths[item])
        fitting = [number for number, room in enumerate(rooms) if room >= length]
        if fitting:
            number = min(fitting, key=lambda number: (rooms[number], -touched[number]))
        else:
            number = len(rooms)
            rooms.append(size)
            touched.append(0)
        rooms[number] -= length
        touched[number] = moment
        placed[item] = number
    return placed
