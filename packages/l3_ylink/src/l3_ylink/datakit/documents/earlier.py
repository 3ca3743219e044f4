"""The kept documents of earlier runs, which new ones are compared with: rows that come after a run's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from l3_ylink._kit.problems import BadInput

from .columns import plain
from .store import Signals

if TYPE_CHECKING:
    from l3_ylink.datakit.recipe import Recipe

I64 = npt.NDArray[np.int64]


class Block(NamedTuple):
    """A stored block of an earlier run: its kept rows, and the row that the first of them has here."""

    signals: Signals
    number: int
    kept: I64
    first: int

    def rows(self, records: npt.NDArray[np.int64]) -> I64:
        """Rows of the block, all of them kept, as rows of the run that looks at them."""
        return self.first + np.searchsorted(self.kept, records)


class Earlier:
    """The kept documents of some runs, numbered on from `count` (the documents of the run itself)."""

    def __init__(self, recipe: Recipe, count: int) -> None:
        self._blocks: list[Block] = []
        self.end = count
        for folder in recipe.earlier:
            self._add(folder, recipe)

    def _add(self, folder: Path, recipe: Recipe) -> None:
        from l3_ylink.datakit.plan import RunPlan

        plan = RunPlan.load(folder)
        check_same(recipe, plan.recipe, folder)
        signals = Signals(plan.store, len(plan.blocks))
        try:
            file = pq.ParquetFile(folder / "decisions.parquet")
        except FileNotFoundError as error:
            raise BadInput(
                "the earlier run is not finished",
                field=str(folder),
                do="finish it, or take it out of `earlier`",
            ) from error
        with file:
            for number in range(file.num_row_groups):
                kept = np.flatnonzero(plain(file.read_row_group(number, columns=["kept"]).column(0)))
                self._blocks.append(Block(signals, number, kept, self.end))
                self.end += len(kept)

    def __iter__(self) -> Iterator[Block]:
        return iter(self._blocks)

    def wanted(self, flags: npt.NDArray[np.bool_]) -> Iterator[tuple[I64, list[str]]]:
        """The rows (as numbered here) that `flags` asks for, and their texts, block after block."""
        for block in self._blocks:
            chosen = np.flatnonzero(flags[block.first : block.first + len(block.kept)])
            if len(chosen):
                texts = block.signals.block_texts(block.number, block.kept[chosen].tolist())
                yield block.first + chosen, texts

    def ids(self, rows: Sequence[int]) -> list[str]:
        """The ids of some rows, with the name of their run's folder before them."""
        starts = [block.first for block in self._blocks]
        found = []
        for row in rows:
            block = self._blocks[int(np.searchsorted(starts, row, side="right")) - 1]
            mark = block.signals.columns(block.number)["id"][int(block.kept[row - block.first])]
            found.append(f"{block.signals.store.folder.parent.name}:{mark}")
        return found


def check_same(recipe: Recipe, other: Recipe, folder: Path) -> None:
    """A `BadInput` where the earlier run measured what is compared in another way, or not at all."""
    mine: dict[str, Any] = {step.step: step for step in recipe.steps if step.COMPARES}
    theirs = {step.step: step for step in other.steps}
    for name, step in mine.items():
        if name not in theirs or theirs[name].signal_settings() != step.signal_settings():
            raise BadInput(
                f"step {name} has other settings there, or is missing",
                field=str(folder),
                do="give both recipes the same step, or take the run out of `earlier`",
            )
