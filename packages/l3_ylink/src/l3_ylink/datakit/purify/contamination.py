"""Contamination: texts that share long runs of units with items of an evaluation set.

English items are compared by runs of words, Chinese ones by runs of characters.  An item shorter than
the run is compared whole, down to a least length; one shorter still says nothing and is only counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.quality.characters import HAN
from l3_ylink.datakit.quality.units import U64, Units, split_units

LEAST_WORDS = 6
LEAST_CHARACTERS = 10


@dataclass(frozen=True)
class Index:
    """Runs of evaluation items: by run length, sorted hashes and the item of each."""

    items: list[str]
    runs: dict[int, tuple[U64, list[int]]]
    runs_of_item: list[int]
    too_short: int = 0


@dataclass
class Hits:
    """What one text shares with the items: item -> how many different runs of it."""

    runs: dict[int, set[int]] = field(default_factory=dict)


def read_items(path: Path, name: str, fields: Iterable[str]) -> list[tuple[str, str]]:
    """`(name/id, text)` of every row of a JSONL file; a `BadInput` names the line at fault."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read the evaluation set {name}", field=str(path), why=str(error)) from error
    items = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row = _row(line, path, number)
        texts = [str(row[key]) for key in fields if row.get(key)]
        if not texts:
            raise BadInput(
                f"line {number} has none of {', '.join(fields)}",
                field=str(path),
                do="set `fields` of `against`",
            )
        items.append((f"{name}/{row.get('id', number)}", "\n".join(texts)))
    return items


def _row(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise BadInput(f"line {number} is not JSON: {error}", field=str(path)) from error
    if not isinstance(row, dict):
        raise BadInput(f"line {number} is not an object", field=str(path))
    return row


def build_index(items: list[tuple[str, str]], words: int, characters: int) -> Index:
    """The runs of all items."""
    units = split_units([text for _, text in items])
    han = np.concatenate([[0], np.cumsum((units.bits[units.start] & HAN) != 0)])[units.first_unit]
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
        runs = _item_runs(units, item, n)
        counts.append(len(runs))
        found.setdefault(n, []).extend((run, item) for run in runs)
    return Index(
        [name for name, _ in items], {n: _sorted(pairs) for n, pairs in found.items()}, counts, too_short
    )


def _item_runs(units: Units, item: int, n: int) -> list[int]:
    hashes, first = units.grams(n)
    low, high = np.searchsorted(units.text_of[first], [item, item + 1])
    return sorted(set(hashes[low:high].tolist()))


def _sorted(pairs: list[tuple[int, int]]) -> tuple[U64, list[int]]:
    pairs = sorted(pairs)
    return np.array([run for run, _ in pairs], np.uint64), [item for _, item in pairs]


def find_hits(units: Units, index: Index) -> list[Hits]:
    """What each text shares with the items of the index."""
    hits = [Hits() for _ in range(units.texts)]
    for n, (known, items) in index.runs.items():
        hashes, first = units.grams(n)
        for place in np.flatnonzero(np.isin(hashes, known)).tolist():
            run = int(hashes[place])
            at = int(np.searchsorted(known, hashes[place]))
            while at < len(items) and int(known[at]) == run:
                hits[int(units.text_of[first[place]])].runs.setdefault(items[at], set()).add(run)
                at += 1
    return hits
