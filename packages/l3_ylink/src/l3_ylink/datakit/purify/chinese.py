"""A small language model of Chinese characters: how likely is each character after the two before it?

It judges repairs: a text that was read in a wrong encoding is made of characters that hardly ever follow
each other.  Traditional characters count as their simplified forms, so that one model serves both.  The
table (1.8 MB) is trained by `benchmarks/train_characters.py` from text under permissive licences, which
are named there; runs of up to three symbols, absolute discounting, natural logarithms in tenths.
"""

from __future__ import annotations

import json
import lzma
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]

MARKS = "，。、；：？！（）《》“”‘’—…·「」『』【】"
LETTER, DIGIT, OTHER, RARE, LOST = 30, 31, 32, 33, 34
FIRST_HAN = 35
SPREAD = {LETTER: 3.2, DIGIT: 2.3, OTHER: 4.0, RARE: 9.5, LOST: 9.0}
"""What it costs to name one character among all that share a symbol, in nats."""

ODD = -11.5
"""A character whose own log probability is below is odd: one in a hundred of clean text is."""


HARDLY_USED = ((0x2474, 0x249C), (0x3220, 0x3400), (0xFE30, 0xFE70))
"""Numbers in parentheses and the like: in running text they are halves of other characters."""

AROUND, PRIOR = 1.0, 1.0
"""Weight of the text around in the mixture, and how many more times a context must come to be believed."""


class ChineseModel:
    """The model, with the forms and the readings of characters that came with it."""

    def __init__(self, data: bytes) -> None:
        size = int.from_bytes(data[:8], "little")
        head: dict[str, Any] = json.loads(data[8 : 8 + size])
        self._rest = memoryview(data)[8 + size :]
        self.han: str = head["han"]
        self.size = FIRST_HAN + len(self.han)
        self.fold = np.arange(0x10000, dtype=np.uint32)
        forms = np.frombuffer(head["forms"].encode("utf-16-le"), np.uint16)
        self.fold[forms[::2]] = forms[1::2]
        self.symbol = self._symbols()
        first, back1 = self._logs(self.size), self._logs(self.size)
        self.two = self._keys(head["two"])
        self.second, self.back2 = self._logs(head["two"]), self._logs(head["two"])
        self.three = self._keys(head["three"])
        self.third = self._logs(head["three"])
        self.first, self.back1 = first, back1
        self._readings: str = head["readings"]
        spread = np.zeros(self.size, np.float32)
        spread[list(SPREAD)] = list(SPREAD.values())
        self.spread = spread
        own = first - spread
        self.odd = (own < ODD)[self.symbol] & (self.symbol >= RARE)
        for start, end in HARDLY_USED:
            self.odd[start:end] = True

    def _take(self, size: int) -> memoryview:
        part, self._rest = self._rest[:size], self._rest[size:]
        return part

    def _logs(self, count: int) -> F32:
        return np.frombuffer(self._take(count), np.uint8).astype(np.float32) / np.float32(-10)

    def _keys(self, count: int) -> I64:
        planes = np.frombuffer(self._take(5 * count), np.uint8).reshape(5, count)
        steps = np.zeros(count, np.int64)
        for place in range(5):
            steps |= planes[place].astype(np.int64) << (8 * place)
        return np.cumsum(steps)

    def _symbols(self) -> npt.NDArray[np.uint16]:
        symbol = np.full(0x10000, OTHER, np.uint16)
        symbol[0x3400:0xA000] = RARE
        symbol[0xE000:0xF900] = LOST
        symbol[0xFFFD] = LOST
        symbol[0x30:0x3A] = symbol[0xFF10:0xFF1A] = DIGIT
        symbol[0x41:0x5B] = symbol[0x61:0x7B] = LETTER
        symbol[[ord(mark) for mark in MARKS]] = np.arange(len(MARKS))
        symbol[[ord(character) for character in self.han]] = np.arange(len(self.han)) + FIRST_HAN
        return symbol[self.fold]

    @cached_property
    def readings(self) -> dict[str, frozenset[str]]:
        """Reading with its tone mark -> the characters that are read so."""
        rows = (line.split(" ", 1) for line in self._readings.split("\n"))
        return {sound: frozenset(characters) for sound, characters in rows}

    def symbols(self, codes: U32) -> I64:
        """The symbols of characters; those beyond the first plane are rare."""
        known = self.symbol[np.minimum(codes, np.uint32(0xFFFF))]
        return np.where(codes > 0xFFFF, RARE, known).astype(np.int64)

    def after(self, before: I64, last: I64, symbols: I64) -> F32:
        """log p(symbol | before, last), elementwise."""
        pair = last * self.size + symbols
        place, known = _find(self.two, pair)
        log = np.where(known, self.second[place], self.back1[last] + self.first[symbols])
        context, held = _find(self.two, before * self.size + last)
        log = np.where(held, log + self.back2[context], log)
        place, known = _find(self.three, context * self.size + symbols)
        log = np.where(held & known, self.third[place], log)
        cost: F32 = (log - self.spread[symbols]).astype(np.float32)
        return cost

    def adapted(self, texts: list[str]) -> Adapted:
        """The model with what some texts around a place say: their words are likely there too."""
        rows = [self.symbols(_codes(text)) for text in texts]
        return Adapted(self, np.concatenate([np.append(row, OTHER) for row in rows]))

    def score(self, text: str) -> float:
        """log probability of a text, in nats; it begins as a line does."""
        if not text:
            return 0.0
        return float(self.logs(text).sum())

    def logs(self, text: str) -> F32:
        """log probability of each character of a text."""
        symbols = np.concatenate([np.full(2, OTHER, np.int64), self.symbols(_codes(text))])
        return self.after(symbols[:-2], symbols[1:-1], symbols[2:])


class Adapted(ChineseModel):
    """A model mixed with counts of the text around: pairs and threes of symbols that stand there."""

    def __init__(self, model: ChineseModel, symbols: I64) -> None:
        self.__dict__.update(model.__dict__)
        size = self.size
        pairs = symbols[:-1] * size + symbols[1:]
        self._pairs, self._pair_counts = np.unique(pairs, return_counts=True)
        self._threes, self._three_counts = np.unique(pairs[:-1] * size + symbols[2:], return_counts=True)
        self._firsts = np.bincount(symbols, minlength=size)

    def after(self, before: I64, last: I64, symbols: I64) -> F32:
        own = super().after(before, last, symbols)
        context = before * self.size + last
        pair = self._count(self._pairs, self._pair_counts, last * self.size + symbols)
        three = self._count(self._threes, self._three_counts, context * self.size + symbols)
        here = pair / (self._firsts[last] + PRIOR)
        here += three / (self._count(self._pairs, self._pair_counts, context) + PRIOR)
        spread = np.where(symbols < FIRST_HAN, np.exp(-self.spread[symbols]), 1)
        mixed: F32 = np.log(np.exp(own) + AROUND * here * spread).astype(np.float32)
        return mixed

    def _count(self, keys: I64, counts: I64, wanted: I64) -> npt.NDArray[np.float64]:
        if not len(keys):
            return np.zeros(len(wanted))
        place, known = _find(keys, wanted)
        return np.where(known, counts[place], 0).astype(np.float64)


def _codes(text: str) -> U32:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _find(keys: I64, wanted: I64) -> tuple[I64, npt.NDArray[np.bool_]]:
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return place, keys[place] == wanted


@cache
def chinese() -> ChineseModel:
    """The model, read once a process (about 0.2 s)."""
    packed = files("l3_ylink.datakit.purify").joinpath("data/characters.xz").read_bytes()
    return ChineseModel(lzma.decompress(packed))
