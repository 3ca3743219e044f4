"""What pages and REST ask for: data sets, documents, training runs and plans of the caller's tenant."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from l3_ylink._kit.documents import read_json
from l3_ylink._kit.problems import Problem
from l3_ylink._kit.tokens import Principal
from l3_ylink.datakit import explain
from l3_ylink.datakit.card.licences import RollUp, roll_up
from l3_ylink.datakit.cost.measured import cost_of
from l3_ylink.datakit.cost.model import Estimate
from l3_ylink.datakit.explain import Explanation, WhatIf
from l3_ylink.datakit.export import INSTRUCTIONS, MANIFEST, TEXT_FOLDER
from l3_ylink.datakit.gather.readers import read_piece
from l3_ylink.datakit.plan import RunPlan
from l3_ylink.datakit.report.curves import read_curves
from l3_ylink.datakit.report.dials import dials
from l3_ylink.datakit.report.page import CURVES
from l3_ylink.datakit.report.waterfall import Stage, stages
from l3_ylink.datakit.steps.extract import Extract
from l3_ylink.documents import DatasetManifest, ParallelPlan
from l3_ylink.settings import Settings
from l3_ylink.store.shelf import Entry, Shelf
from l3_ylink.trainkit.program import read_steps
from l3_ylink.trainkit.runs import Run, read_run

MOST_POINTS = 2_000
"""Points of a curve that a page draws; a longer curve is thinned."""


#: What is shown of a run whose folder says nothing.
NO_RUN: dict[str, Any] = {
    "state": "unknown",
    "kind": "",
    "attempt": None,
    "started_at": None,
    "ended_at": None,
    "why": "",
    "inputs": {},
    "metrics": {},
}


@dataclass(frozen=True)
class Dataset:
    """A data set on the shelf; without a manifest its run is not finished."""

    entry: Entry
    manifest: DatasetManifest | None
    instructions: DatasetManifest | None


@dataclass(frozen=True)
class Original:
    """A document as its file gives it, before cleaning; or why that cannot be shown."""

    text: str
    missing: str = ""


class Library:
    """The caller's view of what lies on the shelf."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.shelf = Shelf(settings.state_dir)

    def datasets(self, who: Principal) -> list[Dataset]:
        """Data sets, the newest first."""
        return [_dataset(entry) for entry in reversed(self.shelf.entries("data", who))]

    def dataset(self, mark: str, who: Principal) -> Dataset:
        """One data set; `NotFound` for another tenant's as for none."""
        return _dataset(self.shelf.get("data", mark, who))

    def documents(
        self,
        mark: str,
        who: Principal,
        *,
        step: str | None,
        reason: str | None,
        kept: bool | None,
        offset: int,
        most: int,
    ) -> tuple[int, list[dict[str, Any]]]:
        """How many documents have this fate, and some of them."""
        folder = self.shelf.get("data", mark, who).folder
        return explain.documents(folder, step=step, reason=reason, kept=kept, offset=offset, most=most)

    def document(self, mark: str, document: str, who: Principal) -> tuple[Explanation, Original]:
        """A document: why it was kept or dropped, its text, and what its file said."""
        folder = self.shelf.get("data", mark, who).folder
        found = explain.explain(folder, document)
        return found, _original(RunPlan.load(folder), found)

    def whatif(self, mark: str, changes: dict[str, Any], who: Principal) -> WhatIf:
        """What other thresholds would keep and drop."""
        return explain.whatif(self.shelf.get("data", mark, who).folder, changes)

    def thresholds(self, mark: str, who: Principal) -> list[dict[str, Any]]:
        """Every threshold of a recipe that can be tried without measuring again, with its curve."""
        folder = self.shelf.get("data", mark, who).folder
        recipe = RunPlan.load(folder).recipe
        curves = {curve.dial.setting: curve for curve in read_curves(folder / CURVES)}
        rows = []
        for dial in dials(recipe):
            curve = curves.get(dial.setting)
            if curve is None and dial.signal:
                continue  # no document of this kind came so far
            row = {**dial._asdict(), "step": recipe.steps[dial.place].step}
            drawn = ("count", "held", "low", "high", "logarithmic", "points")
            rows.append({**row, **{name: getattr(curve, name) if curve else None for name in drawn}})
        return rows

    def funnel(self, mark: str, who: Principal) -> tuple[list[Stage], list[dict[str, Any]]]:
        """A data set's stages (documents only), and its alarms."""
        folder = self.shelf.get("data", mark, who).folder
        steps, alarms = explain.stored_funnel(folder)
        names = RunPlan.load(folder).recipe.stages
        return stages(steps, names, [0] * (len(steps) + 1)), alarms

    def cost(self, mark: str, input_bytes: float, cores: int, who: Principal) -> Estimate:
        """What a data set's recipe would cost on a cluster."""
        return cost_of(self.shelf.get("data", mark, who).folder, input_bytes, cores)

    def licences(self, mark: str, who: Principal) -> RollUp:
        """What the licences of a data set's sources ask for together."""
        manifest = self.dataset(mark, who).manifest
        return roll_up(source.licence for source in (manifest.sources if manifest else ()))

    def runs(self, who: Principal) -> list[dict[str, Any]]:
        """Training runs, the newest first."""
        return [_run(entry) for entry in reversed(self.shelf.entries("run", who))]

    def run(self, mark: str, who: Principal) -> dict[str, Any]:
        """One training run with its figures."""
        return _run(self.shelf.get("run", mark, who))

    def curve(self, mark: str, who: Principal) -> dict[str, list[float | None]]:
        """Step, loss and attempt of a run, thinned to what a page can draw; of overlaps the last attempt."""
        folder = self.shelf.get("run", mark, who).folder
        rows = {row["step"]: row for row in read_steps(folder) if "loss" in row and "step" in row}
        steps = sorted(rows)
        thin = steps[:: max(1, len(steps) // MOST_POINTS)]
        return {
            "step": thin,
            "loss": [rows[step]["loss"] for step in thin],
            "attempt": [rows[step].get("attempt") for step in thin],
        }

    def plans(self, who: Principal) -> list[tuple[Entry, ParallelPlan]]:
        """Parallel plans, the newest first; a file that is none any more is left out."""
        found = []
        for entry in reversed(self.shelf.entries("plan", who)):
            try:
                found.append((entry, ParallelPlan.read(entry.folder)))
            except Problem:
                continue
        return found

    def plan(self, mark: str, who: Principal) -> tuple[Entry, ParallelPlan]:
        """One parallel plan."""
        entry = self.shelf.get("plan", mark, who)
        return entry, ParallelPlan.read(entry.folder)


def _dataset(entry: Entry) -> Dataset:
    whole = _manifest(entry.folder / MANIFEST) or _manifest(entry.folder / TEXT_FOLDER / MANIFEST)
    return Dataset(entry, whole, _manifest(entry.folder / INSTRUCTIONS / MANIFEST))


def _manifest(path: Path) -> DatasetManifest | None:
    return DatasetManifest.parse(read_json(path), where=path.name) if path.exists() else None


def _run(entry: Entry) -> dict[str, Any]:
    try:
        run: Run | None = read_run(entry.folder).seen()
    except Problem:
        run = None
    about = {} if run is None else asdict(run)
    shown = {name: value for name, value in about.items() if name not in ("folder", "supervisor")}
    return {**NO_RUN, **shown, "id": entry.id, "name": entry.name}


def _original(plan: RunPlan, found: Explanation) -> Original:
    """The document read from its file again: texts before masking are not stored with the data set."""
    path = found.signals["path"]
    extract: Extract = plan.recipe.find(Extract)
    piece = next((p for block in plan.blocks for p in block.pieces if p.path == path), None)
    if piece is None or not (plan.input / path).is_file():
        return Original("", "the input is not there any more")
    about = (plan.input / path).stat()
    if (about.st_mtime_ns, piece.start) != (piece.mtime_ns, 0):
        return Original("", "the file has changed since" if not piece.start else "part of a large file")
    source = plan.recipe.sources[piece.source]
    for document in read_piece(plan.input, piece, source, how=extract.how, longest=extract.longest):
        if document.id == found.id:
            return Original(document.text, document.error or "")
    return Original("", "the file does not hold it any more")
