"""Samples of the dropped: a few documents for each step and reason, drawn by a hash of their ids."""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass

import xxhash

from l3_ylink.datakit.decide import Decisions
from l3_ylink.datakit.documents.store import Signals
from l3_ylink.datakit.recipe import Recipe
from l3_ylink.datakit.steps.base import KEPT

SAMPLES = 3
SAMPLE_CHARACTERS = 280


@dataclass(frozen=True)
class Sample:
    """A dropped document for the report."""

    id: str
    step: str
    reason: str
    value: float
    threshold: float
    other: str | None
    text: str


def samples(recipe: Recipe, signals: Signals, decisions: Decisions, most: int = SAMPLES) -> list[Sample]:
    """A few dropped documents for each step and reason: the same ones for the same documents."""
    drawn: dict[tuple[int, str], list[tuple[int, int, int, str]]] = defaultdict(list)
    for number in range(len(signals.blocks)):
        verdicts = decisions.verdicts(number)
        rows = (verdicts.step != KEPT).nonzero()[0].tolist()
        ids = signals.columns(number)["id"] if rows else []
        for row in rows:
            some = drawn[int(verdicts.step[row]), verdicts.reason[row]]
            entry = (-xxhash.xxh3_64_intdigest(ids[row]), number, row, ids[row])
            if len(some) < most:
                heapq.heappush(some, entry)
            else:
                heapq.heappushpop(some, entry)
    entries = [entry for _, some in sorted(drawn.items()) for entry in sorted(some, reverse=True)]
    rows = [int(signals.first[number]) + row for _, number, row, _ in entries]
    texts = signals.texts(rows)
    return [
        _sample(recipe, decisions, entry, texts[row][:SAMPLE_CHARACTERS])
        for entry, row in zip(entries, rows, strict=True)
    ]


def _sample(recipe: Recipe, decisions: Decisions, entry: tuple[int, int, int, str], text: str) -> Sample:
    _, number, row, mark = entry
    verdicts = decisions.verdicts(number)
    return Sample(
        mark,
        recipe.steps[int(verdicts.step[row])].step,
        verdicts.reason[row],
        float(verdicts.value[row]),
        float(verdicts.threshold[row]),
        decisions.id_of(int(verdicts.other[row])),
        text,
    )
