"""Contamination: texts that share long runs of units with items of an evaluation set.

English items are compared by runs of words, Chinese ones by runs of characters, traditional ones as
simplified.  An item shorter than the run is compared whole, down to a least length; one shorter still says
nothing and is only counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.quality.characters import HAN
from l3_ylink.datakit.quality.labelled import rows_of
from l3_ylink.datakit.quality.units import U64, Units, split_units

from .folding import folded

I64 = npt.NDArray[np.int64]

LEAST_WORDS = 6
LEAST_CHARACTERS = 10
NAMES = ("id", "task_id", "question_id")
"""Fields that name an item, the first that a row has; else its line does."""


@dataclass(frozen=True)
class Index:
    """Runs of evaluation items: by run length, sorted hashes and the item of each."""

    items: list[str]
    runs: dict[int, tuple[U64, list[int]]]
    runs_of_item: list[int]
    too_short: int = 0

    @cached_property
    def slots(self) -> list[tuple[int, U64]]:
        """By run length, the hashes in an open hash table (0 is empty)."""
        return [(n, _filled(np.unique(known))) for n, (known, _) in sorted(self.runs.items())]


@dataclass
class Hits:
    """What one text shares with the items: item -> the different runs of it."""

    runs: dict[int, set[int]] = field(default_factory=dict)


def read_items(path: Path, name: str, fields: Iterable[str]) -> list[tuple[str, str]]:
    """`(name/id, text)` of every row of a JSONL file, plain or gzip; a `BadInput` names the line at fault.

    A field may be a list (the choices of a question).
    """
    items = []
    for number, row in rows_of(path):
        texts = [_text(row[key]) for key in fields if row.get(key)]
        if not texts:
            raise BadInput(
                f"line {number} has none of {', '.join(fields)}",
                field=str(path),
                do="set `fields` of `against`",
            )
        mark = next((row[key] for key in NAMES if row.get(key) not in (None, "")), number)
        items.append((f"{name}/{mark}", "\n".join(texts)))
    return items


def _text(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def build_index(items: list[tuple[str, str]], words: int, characters: int) -> Index:
    """The runs of all items."""
    units = split_units([text for _, text in items])
    han = np.concatenate([[0], np.cumsum((units.bits[units.start] & HAN) != 0)])[units.first_unit]
    hashes = folded(units)
    found: dict[int, list[tuple[int, int]]] = {}
    counts, too_short = [], 0
    for item in range(len(items)):
        first, last = int(units.first_unit[item]), int(units.first_unit[item + 1])
        chinese = 2 * int(han[item + 1] - han[item]) > last - first
        n = min(characters if chinese else words, last - first)
        if n < (LEAST_CHARACTERS if chinese else LEAST_WORDS):
            too_short += 1
            counts.append(0)
            continue
        runs = sorted(set(_runs(hashes[first:last], n).tolist()))
        counts.append(len(runs))
        found.setdefault(n, []).extend((run, item) for run in runs)
    return Index(
        [name for name, _ in items], {n: _sorted(pairs) for n, pairs in found.items()}, counts, too_short
    )


def _sorted(pairs: list[tuple[int, int]]) -> tuple[U64, list[int]]:
    pairs = sorted(pairs)
    return np.array([run for run, _ in pairs], np.uint64), [item for _, item in pairs]


def find_hits(units: Units, index: Index) -> list[Hits]:
    """What each text shares with the items of the index."""
    hits = [Hits() for _ in range(units.texts)]
    hashes = folded(units)
    for n, slots in index.slots:
        known, items = index.runs[n]
        texts, runs = _scan(hashes, units.first_unit, n, slots)
        for text, run in sorted(set(zip(texts.tolist(), runs.tolist(), strict=True))):
            at = int(np.searchsorted(known, np.uint64(run)))
            while at < len(items) and int(known[at]) == run:
                hits[text].runs.setdefault(items[at], set()).add(run)
                at += 1
    return hits


@njit("u8(u8)", cache=True)
def _mixed(value):  # type: ignore[no-untyped-def]
    """Never 0, which marks an empty slot."""
    value ^= value >> np.uint64(31)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(29)
    return value or np.uint64(1)


@njit("u8[::1](u8[::1], i8)", cache=True)
def _runs(hashes, n):  # type: ignore[no-untyped-def]
    """The hash of every run of n units of one text."""
    found = np.empty(max(len(hashes) - n + 1, 0), np.uint64)
    most = np.uint64(1)
    for _ in range(n):
        most *= np.uint64(0x9E3779B97F4A7C15)
    value = np.uint64(0)
    for place in range(len(hashes)):
        value = value * np.uint64(0x9E3779B97F4A7C15) + hashes[place]
        if place >= n:
            value -= hashes[place - n] * most
        if place >= n - 1:
            found[place - n + 1] = _mixed(value)
    return found


@njit("u8[::1](u8[::1])", cache=True)
def _filled(keys):  # type: ignore[no-untyped-def]
    size = 1
    while size < 4 * len(keys):
        size *= 2
    slots = np.zeros(size, np.uint64)
    for key in keys:
        at = key & np.uint64(size - 1)
        while slots[at]:
            at = (at + np.uint64(1)) & np.uint64(size - 1)
        slots[at] = key
    return slots


@njit("Tuple((i8[::1], u8[::1]))(u8[::1], i8[::1], i8, u8[::1])", cache=True)
def _scan(hashes, first_unit, n, slots):  # type: ignore[no-untyped-def]
    """The texts and the hashes of runs that are in the table."""
    texts, runs = [np.int64(0) for _ in range(0)], [np.uint64(0) for _ in range(0)]
    mask = np.uint64(len(slots) - 1)
    for text in range(len(first_unit) - 1):
        for run in _runs(hashes[first_unit[text] : first_unit[text + 1]], n):
            at = run & mask
            while slots[at]:
                if slots[at] == run:
                    texts.append(np.int64(text))
                    runs.append(run)
                    break
                at = (at + np.uint64(1)) & mask
    return np.array(texts, np.int64), np.array(runs, np.uint64)
