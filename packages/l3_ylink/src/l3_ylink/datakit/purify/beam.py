"""The likeliest text behind some bytes of which a few were lost: a beam search under the character model.

What is read is a row of items: a byte (0-255), `LOST` for a mark that may stand for a lost byte
(`SECOND` after it: for two), or a character that was never bytes (its number + `WHOLE`).  A reading of
the items, such as GBK or UTF-8, says which characters can come next at each place; the search keeps the
best few texts for each place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from .chinese import OTHER, ChineseModel

LOST, SECOND = 256, 257
WHOLE = 512
WIDTH = 16
DEAR, FEW_TEXTS = 10.0, 4
"""A move that costs more is tried after the best few texts only."""

NEVER = -1e9

Codes = npt.NDArray[np.uint32]


class Move(NamedTuple):
    """Characters that can come next, how many items they take, and what the step costs in nats.

    `fits(before, codes)` says of which character before (elementwise) a character may come.
    """

    codes: Codes
    items: int
    cost: float = 0.0
    fits: Callable[[Codes, Codes], npt.NDArray[np.bool_]] | None = None


class Reading(Protocol):
    """What the items can be read as."""

    def moves(self, place: int) -> list[Move]:
        """The ways to go on from an item."""


@dataclass
class _Texts:
    """The best texts that end before one item: scores, last two symbols, and how each was reached."""

    score: npt.NDArray[np.float64]
    before: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    code: Codes
    source: npt.NDArray[np.int64]
    parent: npt.NDArray[np.int64]


def likeliest(items: list[int], reading: Reading, model: ChineseModel) -> tuple[str, float] | None:
    """The likeliest text and its log probability less the costs; None where the items cannot be read."""
    one = np.zeros(1, np.int64)
    arrived: list[list[_Texts]] = [[] for _ in range(len(items) + 1)]
    arrived[0].append(_Texts(np.zeros(1), one + OTHER, one + OTHER, one.astype(np.uint32), one - 1, one))
    settled: list[_Texts | None] = [None] * (len(items) + 1)
    for place in range(len(items) + 1):
        if not arrived[place]:
            continue
        here = settled[place] = _best(arrived[place])
        arrived[place] = []
        if place < len(items):
            for move in reading.moves(place):
                if place + move.items <= len(items):
                    arrived[place + move.items].append(_go(here, place, move, model))
    end = settled[-1]
    return (_spell(settled, end), float(end.score[0])) if end is not None else None


def _go(here: _Texts, place: int, move: Move, model: ChineseModel) -> _Texts:
    symbols = model.symbols(move.codes)
    choices = len(symbols)
    count = min(len(here.score), FEW_TEXTS if move.cost > DEAR else WIDTH)
    parent = np.repeat(np.arange(count), choices)
    last = here.last[parent]
    symbol = np.tile(symbols, count)
    score = here.score[parent] + model.after(here.before[parent], last, symbol) - move.cost
    code = np.tile(move.codes, count)
    if move.fits is not None:
        score = np.where(move.fits(here.code[parent], code), score, NEVER)
    best = np.argsort(-score, kind="stable")[:WIDTH]
    return _Texts(
        score[best],
        last[best],
        symbol[best],
        code[best],
        np.full(len(best), place, np.int64),
        parent[best],
    )


def _best(parts: list[_Texts]) -> _Texts:
    """The best texts of several, no two of them alike in all that the model still looks at."""
    score = np.concatenate([part.score for part in parts])
    before = np.concatenate([part.before for part in parts])
    last = np.concatenate([part.last for part in parts])
    order = np.argsort(-score, kind="stable")
    _, first = np.unique((before * 0x10000 + last)[order], return_index=True)
    keep = order[np.sort(first)][:WIDTH]
    return _Texts(
        score[keep],
        before[keep],
        last[keep],
        np.concatenate([part.code for part in parts])[keep],
        np.concatenate([part.source for part in parts])[keep],
        np.concatenate([part.parent for part in parts])[keep],
    )


def _spell(settled: list[_Texts | None], end: _Texts) -> str:
    codes: list[int] = []
    texts, place = end, 0
    while texts.source[place] >= 0:
        codes.append(int(texts.code[place]))
        source, place = int(texts.source[place]), int(texts.parent[place])
        found = settled[source]
        assert found is not None
        texts = found
    return "".join(map(chr, reversed(codes)))
