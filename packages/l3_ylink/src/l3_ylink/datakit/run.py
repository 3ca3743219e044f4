"""Running a recipe: measure blocks, decide, write the data set.  Killed at any point, it goes on from there.

The folder of a run:

    run.json               the plan: recipe, input, blocks
    signals/               committed blocks: texts with their signals, kept or not
    decisions.parquet      each document's fate: step, rule, value, bound, twin
    cuts.parquet           the spans that were taken out of texts, and by which step
    funnel.json            what each step saw, kept and dropped; alarms
    text/                  the kept text (Parquet, JSONL) with its manifest
    tokenizer.json, tokens/text.bin|idx, dataset-manifest.json
    instructions/          validated conversations, rejects with reasons, manifest
    preferences/           compared or judged answers, the same way
    report.html            the funnel, with samples of what was dropped; curves.json beside it
    .costs.jsonl           the CPU seconds of each step, by block
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from l3_ylink._kit.problems import BadInput, Conflict
from l3_ylink.documents import DatasetManifest

from .cost.ledger import Ledger
from .decide import Decisions, decide, write_decisions
from .documents.earlier import check_same
from .documents.store import Signals, disk, sweep
from .engine import run_tasks
from .engines import Engine
from .export import INSTRUCTIONS, MANIFEST, PREFERENCES, TEXT_FOLDER, export_text, export_tokens
from .gather.listing import Block, list_blocks
from .plan import FILE, RunPlan
from .recipe import Recipe
from .report import write_report
from .samples import export_samples
from .steps.tokenise import Tokenise
from .transform.tokens import check_tokenizer

Progress = Callable[[str, int, int], None]
"""Told the stage, how much of it is done, and how much there is."""

BLOCK_BYTES = 4_000_000
WORK = ".decide"


@dataclass(frozen=True)
class DataRun:
    """What a finished run made."""

    folder: Path
    manifest: DatasetManifest
    blocks: int
    reused: int
    unlisted: int

    @property
    def report(self) -> Path:
        """The funnel report."""
        return self.folder / "report.html"


def run_recipe(
    recipe: Recipe,
    *,
    input_folder: Path,
    out: Path,
    workers: int = 1,
    engine: Engine | None = None,
    block_bytes: int = BLOCK_BYTES,
    progress: Progress = lambda _stage, _done, _whole: None,
) -> DataRun:
    """Makes a data set from a folder of documents.

    The result is the same, byte by byte, for any number of workers and on any engine (None: processes
    here).  The same call after a kill goes on and repeats at most the blocks that were being worked on.
    Raises `BadInput` for an empty input or a folder that is not a run's, `Conflict` while another process
    writes to `out`, `Failed` on a full disk.
    """
    found = [(input_folder / folder).resolve() for folder in recipe.earlier]
    recipe = recipe.model_copy(update={"earlier": found})
    for folder in found:
        check_same(recipe, RunPlan.load(folder).recipe, folder)
    listing = list_blocks(input_folder, recipe.sources, block_bytes)
    _check_files(recipe, input_folder)
    plan = replace(RunPlan.make(out, recipe, input_folder, listing), engine=engine)
    _check_out(out, input_folder)
    with disk(out):
        out.mkdir(parents=True, exist_ok=True)
    with _alone(out):
        _clear_partial(out)
        with disk(out / FILE):
            plan.save()
        reused = _measure(plan, workers, progress)
        signals = Signals(plan.store, len(plan.blocks))
        progress("decide", 0, 1)
        with _room(out) as folder, disk(folder):
            with Ledger(out).stage("decide"):
                decisions = decide(recipe, signals, folder)
                write_decisions(out / "decisions.parquet", recipe, decisions)
            progress("decide", 1, 1)
            manifest = _export(plan, signals, decisions, workers, progress)
        _sweep(out)
    return DataRun(out, manifest, len(plan.blocks), reused, listing.unlisted)


def _export(
    plan: RunPlan, signals: Signals, decisions: Decisions, workers: int, progress: Progress
) -> DatasetManifest:
    ledger = Ledger(plan.folder)
    with ledger.stage("text"):
        text = export_text(plan, signals, decisions, lambda done, whole: progress("text", done, whole))
    manifest = text
    if any(step.step == "tokenise" for step in plan.recipe.steps):
        manifest = export_tokens(
            plan, signals, decisions, text, workers, lambda done, whole: progress("tokens", done, whole)
        )
    instructions = export_samples(plan, "instructions")
    export_samples(plan, "preferences")
    with ledger.stage("report"):
        write_report(plan, signals, decisions, manifest, instructions)
    return manifest


def _measure(plan: RunPlan, workers: int, progress: Progress) -> int:
    """Measures the blocks that are not committed yet; returns how many were."""
    plan.store.drop_after(len(plan.blocks))
    todo = [block for block in plan.blocks if not _whole(plan, block)]
    reused = len(plan.blocks) - len(todo)
    progress("measure", reused, len(plan.blocks))
    tasks = [
        {"task": "measure", "block": block.number} for block in sorted(todo, key=lambda block: -block.bytes)
    ]
    for done, _ in enumerate(run_tasks(plan, tasks, workers), reused + 1):
        progress("measure", done, len(plan.blocks))
    return reused


def _whole(plan: RunPlan, block: Block) -> bool:
    parts = plan.store.committed(block.number, plan.block_key(block))
    return bool(parts) and parts[-1].last


def _check_files(recipe: Recipe, input_folder: Path) -> None:
    """Files that are needed only at the end are looked at before the work begins."""
    for entry in (*recipe.instructions, *recipe.preferences):
        if not (input_folder / entry.path).is_file():
            raise BadInput(f"there is no file {entry.path}", field=entry.name, do="check its path")
    step: Tokenise | None = recipe.find(Tokenise)
    if step is not None and step.tokenizer is not None:
        check_tokenizer(input_folder / step.tokenizer, step.end)


def _check_out(out: Path, input_folder: Path) -> None:
    if out.exists() and not out.is_dir():
        raise BadInput("is a file", field=str(out), do="choose a folder as --out")
    if out.is_dir() and any(out.iterdir()) and not (out / FILE).exists():
        left = {path.name for path in out.iterdir()} - {".lock"}
        if left:
            raise BadInput("is not empty and holds no data run", field=str(out), do="choose another --out")
    resolved = out.resolve()
    if resolved == input_folder.resolve() or resolved.is_relative_to(input_folder.resolve()):
        raise BadInput("lies inside the input folder", field=str(out), do="choose an --out elsewhere")


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Holds the folder for this process; the kernel lets go when it dies."""
    with disk(out), open(out / ".lock", "a", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Conflict(
                f"another process is writing to {out}", do="wait for it, or choose another --out"
            ) from error
        yield


def _clear_partial(out: Path) -> None:
    """Old results go first: a manifest in the folder always belongs to what lies beside it."""
    for folder in (out, *(out / name for name in (TEXT_FOLDER, INSTRUCTIONS, PREFERENCES))):
        (folder / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(out / WORK, ignore_errors=True)
    _sweep(out)
    for mark in out.glob(".reading-*"):
        mark.unlink()


def _sweep(out: Path) -> None:
    """Takes away what killed writers left: a worker may die while the run lives."""
    for folder, _, names in os.walk(out):
        if any(name.endswith(".tmp") for name in names):
            sweep(Path(folder))


@contextlib.contextmanager
def _room(out: Path) -> Iterator[Path]:
    """A folder for what lies on disk only while a run decides."""
    folder = out / WORK
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
