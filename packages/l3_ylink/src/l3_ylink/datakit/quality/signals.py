"""Signals of a text: what the quality rules look at, measured for a whole batch at once.

Shares are between 0 and 1 unless said; counts are counts.  Repetition and quality follow Rae et al. 2021
(Gopher, table A1) and FineWeb as the peers compute them, so that the same thresholds give the same
decisions; `reference.py` has the definitions in plain Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from . import loops
from .characters import DAMAGED, DIGIT, HAN, LETTER, NEWLINE, PUNCTUATION, SENTENCE_END, SPACE, SYMBOL
from .chinese import chinese_signals
from .classes import CHINESE_MARK, CURLY, HASH_SIGN, classes
from .units import I64, U64, Units, split_units

F64 = npt.NDArray[np.float64]
Column = npt.NDArray[Any]

STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")
"""Gopher's English stop words."""

TOP_GRAMS = (2, 3, 4)
REPEATED_GRAMS = (5, 6, 7, 8, 9, 10)


def measure(units: Units, texts: Sequence[str]) -> dict[str, Column]:
    """Every signal of every text: name -> one value a text."""
    columns: dict[str, Column] = {}
    columns.update(_characters(units))
    columns.update(_words(units))
    columns.update(_lines(units))
    columns.update(_repetition(units))
    columns.update(chinese_signals(units, texts, columns["han"]))
    return columns


def share(part: Column, whole: Column) -> F64:
    """part / whole, 0 where there is nothing; rounded, so that a stored value reads the same everywhere."""
    whole = np.asarray(whole, np.float64)
    result: F64 = np.zeros(len(whole))
    np.divide(part, whole, out=result, where=whole > 0)
    return np.round(result, 6, out=result)


def _size(units: Units) -> I64:
    """Characters of each text."""
    return np.diff(units.text_start) - 1


def _characters(units: Units) -> dict[str, Column]:
    total, letters, han = _size(units), units.count(LETTER), units.count(HAN)
    visible = total - units.count(SPACE)
    return {
        "characters": total,
        "han": han,
        "han_share": share(han, letters),
        "letter_share": share(letters, visible),
        "digit_share": share(units.count(DIGIT), visible),
        "symbol_share": share(units.count(SYMBOL | PUNCTUATION), visible),
        "damaged_share": share(units.count(DAMAGED), visible),
        "sentence_ends": units.count(SENTENCE_END),
        "units_per_mark": share(np.diff(units.first_unit), units.count(CHINESE_MARK) + 1),
        "curly_brackets": units.count(CURLY),
    }


def word_counts(units: Units) -> I64:
    """The counts of `loops.word_counts`, one row a text."""
    counts = np.zeros((units.texts, 5), np.int64)
    stops, lorem = _known_words()
    loops.word_counts(units.exact, units.hash, units.alpha, units.first_unit, stops, lorem, counts)
    return counts


@cache
def _known_words() -> tuple[U64, U64]:
    return split_units([" ".join(STOP_WORDS)]).hash, split_units(["lorem ipsum"]).hash


def stop_words(units: Units) -> tuple[I64, I64]:
    """How many units of each text are English stop words, and how many different ones."""
    counts = word_counts(units)
    return counts[:, 2], counts[:, 3]


def _words(units: Units) -> dict[str, Column]:
    count = np.diff(units.first_unit)
    found = word_counts(units)
    return {
        "units": count,
        "mean_word_length": share(_sum_units(units, units.length), count),
        "alpha_units": share(found[:, 0], count),
        "stop_words": found[:, 1],
        "hashes_per_unit": share(units.count(HASH_SIGN), count),
        "lorem_ipsum": found[:, 4],
    }


def _sum_units(units: Units, values: Column) -> I64:
    sums = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=sums[1:])
    return np.diff(sums[units.first_unit])


def _lines(units: Units) -> dict[str, Column]:
    """Lines and paragraphs: how lines begin and end, how long they are, which repeat."""
    known = classes()
    found = np.zeros((units.texts, loops.LINE_COLUMNS), np.int64)
    loops.lines(units.codes, units.text_start, known.kind, known.bits, units.count(NEWLINE), found)
    count = np.diff(units.first_unit)
    size = _size(units)
    return {
        "lines": found[:, 3],
        "short_lines": share(found[:, 4], found[:, 3]),
        "ended_lines": share(found[:, 5], found[:, 3]),
        "line_characters_again": share(found[:, 6], size - found[:, 14]),
        "bullet_lines": share(found[:, 8], found[:, 7]),
        "ellipsis_lines": share(found[:, 9], found[:, 7]),
        "ellipses_per_unit": share(found[:, 10], count),
        "repeated_lines": share(found[:, 1], found[:, 0]),
        "repeated_line_characters": share(found[:, 2], size),
        "repeated_paragraphs": share(found[:, 12], found[:, 11]),
        "repeated_paragraph_characters": share(found[:, 13], size),
        "newlines_per_unit": share(found[:, 14], count),
    }


def _repetition(units: Units) -> dict[str, Column]:
    top = np.zeros((units.texts, len(TOP_GRAMS)), np.int64)
    repeated = np.zeros((units.texts, len(REPEATED_GRAMS)), np.int64)
    loops.repetition(units.exact, units.length, units.first_unit, top, repeated)
    size = _size(units)
    columns = {f"top_{n}_gram": share(top[:, place], size) for place, n in enumerate(TOP_GRAMS)}
    for place, n in enumerate(REPEATED_GRAMS):
        columns[f"repeated_{n}_grams"] = share(repeated[:, place], size)
    return columns
