"""What a run found of each evaluation item: in how many documents, and how much of the item."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from l3_ylink._kit.problems import NotFound
from l3_ylink.datakit.documents.columns import read
from l3_ylink.datakit.documents.store import Signals
from l3_ylink.datakit.explain import DECISIONS, open_run
from l3_ylink.datakit.steps.contamination import SEPARATOR, Decontaminate

EXAMPLES = 5


@dataclass
class ItemHits:
    """One item: documents that share runs with it, those of them that stay, the largest share of its runs."""

    item: str
    documents: int = 0
    kept: int = 0
    share: float = 0.0
    examples: list[str] = field(default_factory=list)


@dataclass
class SetHits:
    """One evaluation set: its items, those too short to compare, those found, and documents with any."""

    name: str
    items: int = 0
    too_short: int = 0
    found: int = 0
    documents: int = 0


@dataclass
class Contamination:
    """The report: sets, and the items that were found, most documents first."""

    method: str
    sets: list[SetHits]
    items: list[ItemHits]


def contamination_report(folder: Path) -> Contamination:
    """The report of a finished run, from its stored columns; `NotFound` without a step decontaminate."""
    plan = open_run(folder)
    step: Decontaminate | None = plan.recipe.find(Decontaminate)
    if step is None:
        raise NotFound(
            "the run's recipe has no step decontaminate", field=str(folder), do="add the step and run again"
        )
    step.prepare(plan.input)
    sets = {entry.name: SetHits(entry.name) for entry in step.against}
    for item, runs in zip(step.index.items, step.index.runs_of_item, strict=True):
        mine = sets[item.split("/", 1)[0]]
        mine.items += 1
        mine.too_short += not runs
    items: dict[str, ItemHits] = {}
    for mark, shares, kept in _hits(Signals(plan.store, len(plan.blocks)), folder):
        for item, share in shares:
            _count(items.setdefault(item, ItemHits(item)), mark, share, kept=kept)
        for name in {item.split("/", 1)[0] for item, _ in shares}:
            sets[name].documents += 1
    for item in items:
        sets[item.split("/", 1)[0]].found += 1
    ordered = sorted(items.values(), key=lambda found: (-found.documents, -found.share, found.item))
    return Contamination(step.method, list(sets.values()), ordered)


def _hits(signals: Signals, folder: Path) -> Iterator[tuple[str, list[tuple[str, float]], bool]]:
    """The id of each document that shares runs with items, the shares, and whether it stays."""
    kept: Any = read(folder / DECISIONS, ["kept"]).column(0)
    for number in range(len(signals.blocks)):
        columns = signals.columns(number)
        by, shares, ids = columns["contaminated_by"], columns["contaminated_shares"], columns["id"]
        for row, names in enumerate(by):
            if names:
                values = [float(share) for share in shares[row].split(SEPARATOR)]
                pairs = list(zip(names.split(SEPARATOR), values, strict=True))
                yield ids[row], pairs, bool(kept[int(signals.first[number]) + row].as_py())


def _count(found: ItemHits, document: str, share: float, *, kept: bool) -> None:
    found.documents += 1
    found.kept += kept
    found.share = max(found.share, share)
    if len(found.examples) < EXAMPLES:
        found.examples.append(document)
