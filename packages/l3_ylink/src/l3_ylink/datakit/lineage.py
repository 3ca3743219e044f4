"""Lineage of a document: from a part of an input file, through each step, to a row of a shard."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from l3_ylink import __version__

from .documents.store import Signals
from .gather.listing import Piece
from .plan import RunPlan
from .recipe import SIGNALS_VERSION

KEPT, DROPPED, CHANGED, HELD, NOT_REACHED = "kept", "dropped", "changed", "held", "not reached"


@dataclass(frozen=True)
class Lineage:
    """Where a document came from, what each step did to it, and where it went.

    `shard`, `row`: its place in the kept text; `token_document`: its number in the token file.  None where
    it was dropped or where there is no such output.
    """

    path: str
    bytes: int
    start: int
    end: int
    source: str
    licence: str
    url: str | None
    version: str
    signals_version: int
    recipe: str
    steps: list[dict[str, Any]]
    shard: str | None
    row: int | None
    token_document: int | None


def lineage(
    plan: RunPlan,
    signals: Signals,
    decisions: Path,
    place: tuple[int, int],
    values: dict[str, Any],
    fate: dict[str, Any],
    cuts: list[dict[str, Any]],
) -> Lineage:
    """The lineage of a document; `place`: its stored block and the row in it, `values`: its columns."""
    number, row = place
    piece = _piece(plan, signals.blocks[number].number, values["path"])
    source = next(entry for entry in plan.recipe.sources if entry.name == values["source"])
    shard, kept_row, document = _output(plan, decisions, number, row) if fate["kept"] else (None, None, None)
    tokenised = any(step.step == "tokenise" for step in plan.recipe.steps)
    return Lineage(
        path=values["path"],
        bytes=piece.bytes if piece else 0,
        start=piece.start if piece else 0,
        end=piece.end if piece else -1,
        source=source.name,
        licence=source.licence,
        url=values.get("url") or source.url,
        version=__version__,
        signals_version=SIGNALS_VERSION,
        recipe=plan.recipe.digest(),
        steps=_steps(plan, values, fate, cuts),
        shard=shard,
        row=kept_row,
        token_document=document if tokenised else None,
    )


def _piece(plan: RunPlan, block: int, path: str) -> Piece | None:
    return next((piece for piece in plan.blocks[block].pieces if piece.path == path), None)


def _steps(
    plan: RunPlan, values: dict[str, Any], fate: dict[str, Any], cuts: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for step in plan.recipe.steps:
        spans = [cut for cut in cuts if cut["step"] == step.step]
        entry: dict[str, Any] = {"step": step.step, "what": HELD, "settings": step.model_dump(mode="json")}
        if step.step == fate["step"]:
            entry |= {name: fate[name] for name in ("reason", "value", "threshold", "other")}
            entry["what"] = DROPPED
        elif any(seen["what"] in (DROPPED, NOT_REACHED) for seen in found):
            entry["what"] = NOT_REACHED
        elif spans:
            entry |= {"what": CHANGED, "characters": sum(cut["end"] - cut["start"] for cut in spans)}
        elif _touched(step.step, values):
            entry["what"] = CHANGED
        found.append(entry)
    return found


def _touched(step: str, values: dict[str, Any]) -> bool:
    """Whether a step that works on texts noted that it changed this one."""
    return bool({"clean": values.get("cleaned"), "personal": values.get("personal")}.get(step))


def _output(plan: RunPlan, decisions: Path, number: int, row: int) -> tuple[str, int, int]:
    """The shard and the row in it, and the number among all kept documents."""
    before = 0
    with pq.ParquetFile(decisions) as file:
        for earlier in range(number):
            kept = file.read_row_group(earlier, columns=["kept"]).column(0)
            before += int(np.asarray(kept.to_pylist(), bool).sum())
        mine = np.asarray(file.read_row_group(number, columns=["kept"]).column(0).to_pylist(), bool)
    place = int(mine[:row].sum())
    return f"text/part-{number:06d}.{plan.recipe.text_formats[0]}", place, before + place
