"""Counting n-grams in bounded memory: sorted runs on disk, merged in pieces.

An n-gram of order n is one 64-bit number: its word numbers side by side, the first word in the highest
bits, so that n-grams sort by their words and those of one context lie together.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

UNKNOWN, BEGIN, END, FIRST_WORD = 0, 1, 2, 3
"""Word numbers with a meaning of their own; the vocabulary begins at FIRST_WORD."""

ROW = np.dtype([("key", "u8"), ("raw", "u8"), ("left", "u8")])
"""An n-gram, how often it was seen, and how many different words were seen before it."""

Rows = npt.NDArray[np.void]
ROWS_AT_ONCE = 2_000_000


def bits_of(order: int) -> int:
    """Bits for one word number; a vocabulary holds at most 2^bits numbers."""
    return 64 // order if order > 1 else 32


class Counts:
    """Counts of all n-grams up to an order, kept in `folder`; `rows` bounds what is held in memory."""

    def __init__(self, folder: Path, order: int, rows: int = ROWS_AT_ONCE) -> None:
        self.folder = folder
        self.order = order
        self.bits = bits_of(order)
        self.rows = rows
        self.sentences = 0
        self.words = 0
        self._waiting: dict[int, list[U64]] = {n: [] for n in range(1, order + 1)}
        self._held = 0
        self._runs: dict[int, int] = dict.fromkeys(range(1, order + 1), 0)

    def add(self, words: I64, sentence: I64) -> None:
        """Counts word numbers laid end to end; `sentence[i]` is the sentence of word i (BEGIN … END)."""
        self.sentences += int((words == END).sum())
        self.words += int((words != BEGIN).sum())
        keys = words.astype(np.uint64)
        for n in range(1, self.order + 1):
            count = len(words) - n + 1
            if count <= 0:
                break
            if n > 1:
                keys = (keys[:count] << np.uint64(self.bits)) | words[n - 1 :].astype(np.uint64)
            inside = (sentence[:count] == sentence[n - 1 :]) if n > 1 else words != BEGIN
            self._waiting[n].append(keys[inside])
            self._held += int(inside.sum())
        if self._held >= self.rows:
            self._spill()

    def _spill(self) -> None:
        for n, parts in self._waiting.items():
            if parts:
                keys, raw = np.unique(np.concatenate(parts), return_counts=True)
                rows = np.zeros(len(keys), ROW)
                rows["key"], rows["raw"] = keys, raw
                self._save(n, rows)
            self._waiting[n] = []
        self._held = 0

    def _save(self, n: int, rows: Rows) -> None:
        rows.tofile(self.folder / f"run-{n}-{self._runs[n]:05d}.rows")
        self._runs[n] += 1

    def merge(self) -> dict[int, Path]:
        """One sorted file of rows an order.  From the highest order down, as each tells the next one how
        many different words come before its n-grams."""
        self._spill()
        found = {}
        for n in range(self.order, 0, -1):
            path = self.folder / f"order-{n}.rows"
            runs = sorted(self.folder.glob(f"run-{n}-*.rows"))
            with open(path, "wb") as stream:
                for rows in _merged(runs, self.rows):
                    stream.write(rows.tobytes())
                    if n > 1:
                        self._tell_suffixes(n, rows["key"])
            for run in runs:
                run.unlink()
            found[n] = path
        return found

    def _tell_suffixes(self, n: int, keys: U64) -> None:
        mask = np.uint64((1 << (self.bits * (n - 1))) - 1)
        suffixes, left = np.unique(keys & mask, return_counts=True)
        rows = np.zeros(len(suffixes), ROW)
        rows["key"], rows["left"] = suffixes, left
        self._save(n - 1, rows)


def _merged(runs: list[Path], rows: int) -> Iterator[Rows]:
    """The rows of sorted runs in order, equal keys added up, in pieces of bounded size.

    What lies before the lowest last key of all buffers can have no equal on disk: it is a piece.
    """
    step = max(rows // max(len(runs), 1), 1)
    place = [0] * len(runs)
    held = [np.zeros(0, ROW) for _ in runs]
    ended = [False] * len(runs)
    while True:
        for number, run in enumerate(runs):
            wanted = step - len(held[number])
            if wanted and not ended[number]:
                more = np.fromfile(run, ROW, wanted, offset=place[number] * ROW.itemsize)
                held[number] = np.concatenate([held[number], more])
                place[number] += len(more)
                ended[number] = len(more) < wanted
        lasts = [some["key"][-1] for some in held if len(some)]
        if not lasts:
            return
        bound = min(lasts)
        ends = [int(np.searchsorted(some["key"], bound, side="right")) for some in held]
        yield _added(np.concatenate([some[:end] for some, end in zip(held, ends, strict=True)]))
        held = [some[end:] for some, end in zip(held, ends, strict=True)]


def _added(rows: Rows) -> Rows:
    order = np.argsort(rows["key"], kind="stable")
    rows = rows[order]
    first = np.flatnonzero(np.concatenate([[True], rows["key"][1:] != rows["key"][:-1]]))
    added = np.zeros(len(first), ROW)
    added["key"] = rows["key"][first]
    for name in ("raw", "left"):
        added[name] = np.add.reduceat(rows[name], first)
    return added


def pieces(path: Path, rows: int, shift: int) -> Iterator[Rows]:
    """The rows of a merged file, in pieces that never divide a context (the key without its last word)."""
    kept = np.zeros(0, ROW)
    with open(path, "rb") as stream:
        while len(some := np.fromfile(stream, ROW, rows)):
            some = np.concatenate([kept, some])
            context = some["key"] >> np.uint64(shift)
            end = int(np.searchsorted(context, context[-1])) if shift else len(some)
            if end:
                yield some[:end]
            kept = some[end:]
    if len(kept):
        yield kept
