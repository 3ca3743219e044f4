"""Why a document was kept or dropped, and what other thresholds would do: from stored columns alone."""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash
import yaml

from l3_ylink._kit.problems import BadInput, NotFound
from l3_ylink.documents import DatasetManifest, StepCount

from .decide import decided
from .documents.columns import read
from .documents.store import Signals
from .export import INSTRUCTIONS, MANIFEST, TEXT_FOLDER
from .lineage import Lineage, lineage
from .plan import RunPlan
from .recipe import Recipe, parse_recipe
from .report import write_report
from .steps.base import Check

DECISIONS = "decisions.parquet"
MOST_LISTED = 50
SAMPLES = 4
SAMPLE_CHARACTERS = 280


@dataclass(frozen=True)
class Explanation:
    """One document: its fate, every rule that was looked at, and its signals."""

    id: str
    kept: bool
    step: str | None
    reason: str | None
    value: float | None
    threshold: float | None
    other: str | None
    checks: list[Check]
    signals: dict[str, Any]
    text: str
    cuts: list[dict[str, Any]] = field(default_factory=list)
    lineage: Lineage | None = None


def open_run(folder: Path) -> RunPlan:
    """The plan of a finished run; `NotFound` when it has not decided yet."""
    plan = RunPlan.load(folder)
    if not (folder / DECISIONS).exists():
        raise NotFound(
            "the run is not finished", field=str(folder), do="run `ylink data run` again: it goes on"
        )
    return plan


def explain(folder: Path, document: str) -> Explanation:
    """The explanation of a document, named by its id or by an ending of its id that only it has."""
    plan = open_run(folder)
    signals = Signals(plan.store, len(plan.blocks))
    number, row = _find(folder / DECISIONS, document)
    values = {name: column[row] for name, column in signals.columns(number).items()}
    plain = {name: value.item() if hasattr(value, "item") else value for name, value in values.items()}
    with pq.ParquetFile(folder / DECISIONS) as file:
        fate = file.read_row_group(number).slice(row, 1).to_pylist()[0]
    checks = []
    for step in plan.recipe.steps:
        checks += step.checks(plain)
        if step.step == fate["step"]:
            if step.step in ("exact", "near"):
                checks.append(
                    Check(
                        step.step,
                        fate["reason"],
                        "similarity",
                        fate["value"],
                        "max",
                        fate["threshold"],
                        held=False,
                    )
                )
            break
    plain = {name: value for name, value in plain.items() if not isinstance(value, bytes)}
    cuts = _cuts(folder, int(signals.first[number]) + row)
    return Explanation(
        id=fate["id"],
        kept=fate["kept"],
        step=fate["step"],
        reason=fate["reason"],
        value=fate["value"],
        threshold=fate["threshold"],
        other=fate["other"],
        checks=checks,
        signals=plain,
        text=signals.block_texts(number, [row])[0],
        cuts=cuts,
        lineage=lineage(plan, signals, folder / DECISIONS, (number, row), plain, fate, cuts),
    )


def _cuts(folder: Path, row: int) -> list[dict[str, Any]]:
    """The spans of a document's text that steps took out."""
    table = read(folder / "cuts.parquet")
    mine: list[dict[str, Any]] = table.filter(pc.equal(table["row"], row)).drop_columns(["row"]).to_pylist()
    return mine


def _find(path: Path, wanted: str) -> tuple[int, int]:
    """The stored block and the row in it of a document."""
    exact: list[tuple[int, int, str]] = []
    ending: list[tuple[int, int, str]] = []
    with pq.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            ids = file.read_row_group(number, columns=["id"]).column(0)
            for row in pc.indices_nonzero(pc.ends_with(ids, wanted)).to_pylist():
                mark = ids[row].as_py()
                (exact if mark == wanted else ending).append((number, row, mark))
    found = exact or ending
    if not found:
        raise NotFound(f"no document {wanted!r}", do="list some with `ylink data documents`")
    if len(found) > 1:
        some = ", ".join(mark for _, _, mark in found[:5])
        raise BadInput(
            f"{wanted!r} names {len(found)} documents", field="DOC", do=f"give more of the id: {some}"
        )
    return found[0][:2]


def documents(
    folder: Path,
    *,
    step: str | None = None,
    reason: str | None = None,
    kept: bool | None = None,
    offset: int = 0,
    most: int = MOST_LISTED,
) -> tuple[int, list[dict[str, Any]]]:
    """How many documents have this fate, and some of them, in the order of the input."""
    open_run(folder)
    table = read(folder / DECISIONS)
    for name, value in (("step", step), ("reason", reason), ("kept", kept)):
        if value is not None:
            table = table.filter(pc.equal(table[name], value))
    return table.num_rows, table.slice(offset, most).to_pylist()


@dataclass(frozen=True)
class WhatIf:
    """What a changed recipe would decide: both funnels, and the documents whose fate would change."""

    before: list[StepCount]
    after: list[StepCount]
    now_kept: list[str] = field(default_factory=list)
    now_dropped: list[dict[str, Any]] = field(default_factory=list)
    kept_before: int = 0
    kept_after: int = 0
    samples: list[dict[str, Any]] = field(default_factory=list)


def whatif(folder: Path, changes: dict[str, Any]) -> WhatIf:
    """Decides again with other settings, e.g. `{"near.threshold": 0.9}`, over the stored columns.

    Nothing is written.  A `BadInput` when a setting would need texts to be measured again.
    """
    plan = open_run(folder)
    recipe = changed_recipe(plan.recipe, changes)
    for step in (*plan.recipe.steps, *recipe.steps):
        if step.signal_settings() != _same_step(plan.recipe, step.step).signal_settings():
            raise BadInput(
                f"{step.step}: this setting changes what is measured",
                field="set",
                do="change the recipe and run it: blocks that do not change are used again",
            )
    signals = Signals(plan.store, len(plan.blocks))
    now_kept: list[str] = []
    now_dropped: list[dict[str, Any]] = []
    samples = _Samples(signals)
    with decided(recipe, signals) as after, pq.ParquetFile(folder / DECISIONS) as decisions:
        for number in range(len(signals.blocks)):
            if not signals.rows(number):
                continue
            was = np.asarray(decisions.read_row_group(number, columns=["kept"]).column(0).to_pylist(), bool)
            fates = after.verdicts(number)
            changed = (was != fates.alive).nonzero()[0].tolist()
            ids = signals.columns(number)["id"] if changed else []
            now_kept += [ids[row] for row in changed if not was[row]]
            now_dropped += [{"id": ids[row], "reason": fates.reason[row]} for row in changed if was[row]]
            for row in changed:
                samples.offer(number, row, ids[row], fates.reason[row])
        return WhatIf(
            before=stored_funnel(folder)[0],
            after=after.funnel,
            now_kept=now_kept,
            now_dropped=now_dropped,
            kept_before=sum(kept_by_block(folder)),
            kept_after=after.kept_count,
            samples=samples.texts(),
        )


class _Samples:
    """Some of the documents whose fate would change, with the beginning of their texts."""

    def __init__(self, signals: Signals) -> None:
        self.signals = signals
        self.drawn: dict[bool, list[tuple[int, int, int, str, str]]] = {True: [], False: []}

    def offer(self, number: int, row: int, mark: str, reason: str) -> None:
        """A document that would be dropped for a reason, or kept (no reason)."""
        some = self.drawn[not reason]
        entry = (-xxhash.xxh3_64_intdigest(mark), number, row, mark, reason)
        if len(some) < SAMPLES:
            heapq.heappush(some, entry)
        else:
            heapq.heappushpop(some, entry)

    def texts(self) -> list[dict[str, Any]]:
        """The samples: those that would be kept first."""
        return [
            {"id": mark, "kept": kept, "reason": reason, "text": self._text(number, row)}
            for kept in (True, False)
            for _, number, row, mark, reason in sorted(self.drawn[kept], reverse=True)
        ]

    def _text(self, number: int, row: int) -> str:
        return self.signals.block_texts(number, [row])[0][:SAMPLE_CHARACTERS]


def stored_funnel(folder: Path) -> tuple[list[StepCount], list[dict[str, Any]]]:
    """The funnel of a finished run and its alarms."""
    about = json.loads((folder / "funnel.json").read_bytes())
    return [StepCount.model_validate(step) for step in about["steps"]], about["alarms"]


def kept_by_block(folder: Path) -> list[int]:
    """How many documents of each stored block are kept."""
    with pq.ParquetFile(folder / DECISIONS) as file:
        groups = (
            file.read_row_group(number, columns=["kept"]).column(0) for number in range(file.num_row_groups)
        )
        return [sum(group.to_pylist()) for group in groups]


def _same_step(recipe: Recipe, name: str) -> Any:
    return next(step for step in recipe.steps if step.step == name)


def changed_recipe(recipe: Recipe, changes: dict[str, Any]) -> Recipe:
    """The recipe with settings changed by path: `STEP.SETTING[.KEY…]`; a text value is read as YAML."""
    value = recipe.model_dump(mode="json")
    for path, wanted in changes.items():
        name, *keys = path.split(".")
        step = next((step for step in value["steps"] if step["step"] == name), None)
        if step is None or not keys:
            names = ", ".join(step["step"] for step in value["steps"])
            raise BadInput(
                f"{path!r} names no setting", field="set", do=f"write STEP.SETTING=VALUE; steps: {names}"
            )
        place = step
        for key in keys[:-1]:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                raise BadInput(f"{path!r} goes into a setting that has no parts", field="set")
        place[keys[-1]] = _value(path, wanted) if isinstance(wanted, str) else wanted
    return parse_recipe(value, where="changed recipe")


def _value(path: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise BadInput(f"{text!r} for {path} is not readable YAML", field="set") from error


def report_again(folder: Path) -> tuple[Path, DatasetManifest]:
    """Writes the report of a finished run anew; returns its path and the run's manifest."""
    plan = open_run(folder)
    signals = Signals(plan.store, len(plan.blocks))
    tokens, text = folder / MANIFEST, folder / TEXT_FOLDER / MANIFEST
    manifest = DatasetManifest.read(tokens if tokens.exists() else text)
    other = folder / INSTRUCTIONS / MANIFEST
    instructions = DatasetManifest.read(other) if other.exists() else None
    with decided(plan.recipe, signals) as decisions:
        return write_report(plan, signals, decisions, manifest, instructions), manifest
