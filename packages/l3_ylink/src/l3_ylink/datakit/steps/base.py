"""What every step is: settings, and what it does to a batch of texts and to stored signals.

A step works at three moments.  In a worker it may change texts (`transform`) and store what it sees in
them as columns (`measure`).  Later, over the stored columns, block by block, it says which documents to
drop (`decide`): that costs next to nothing and can be repeated with other thresholds.  A step that has to
see documents side by side is a `GlobalStep`.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from l3_ylink.datakit.documents.batch import Batch

if TYPE_CHECKING:
    from l3_ylink.datakit.documents.earlier import Earlier
    from l3_ylink.datakit.documents.spill import Spill
    from l3_ylink.datakit.documents.store import Signals

KEPT = -1
"""The step number of a document that no step dropped."""


class Check(NamedTuple):
    """One rule looked at for one document: the value, the bound, and whether it held."""

    step: str
    rule: str
    signal: str
    value: Any
    bound: str
    threshold: Any
    held: bool


@dataclass
class Table:
    """The signals of one stored block, one array or list a column, without the texts.

    Columns are read when they are asked for.  Rows are counted from 0; `first` is the row of the run at
    which the block begins.  `texts(rows)` reads the texts of some rows.  `earlier`: the documents are of an
    earlier run and stay in any case.
    """

    columns: Mapping[str, Any]
    texts: Callable[[Sequence[int]], dict[int, str]]
    rows: int
    first: int = 0
    earlier: bool = False

    def __len__(self) -> int:
        return self.rows

    def numbers(self, name: str) -> npt.NDArray[Any]:
        """A numeric column; zeros where no step of the recipe measures it."""
        return np.asarray(self.columns[name]) if name in self.columns else np.zeros(len(self))


@dataclass
class Verdicts:
    """What was decided of each document: the step that dropped it and why, or nothing."""

    count: int
    step: npt.NDArray[np.int16] = field(init=False)
    reason: list[str] = field(init=False)
    value: npt.NDArray[np.float64] = field(init=False)
    threshold: npt.NDArray[np.float64] = field(init=False)
    other: npt.NDArray[np.int64] = field(init=False)
    number: int = 0

    def __post_init__(self) -> None:
        self.step = np.full(self.count, KEPT, np.int16)
        self.reason = [""] * self.count
        self.value = np.full(self.count, np.nan)
        self.threshold = np.full(self.count, np.nan)
        self.other = np.full(self.count, -1, np.int64)

    @property
    def alive(self) -> npt.NDArray[np.bool_]:
        """Documents that no step has dropped yet."""
        alive: npt.NDArray[np.bool_] = self.step == KEPT
        return alive

    def drop(
        self,
        rows: npt.NDArray[np.integer[Any]],
        reason: str,
        *,
        value: npt.NDArray[Any] | float = np.nan,
        threshold: float = np.nan,
        other: npt.NDArray[np.integer[Any]] | int = -1,
    ) -> None:
        """Drops rows (numbers) for a reason; the current step is `number`."""
        self.step[rows] = self.number
        self.value[rows] = value
        self.threshold[rows] = threshold
        self.other[rows] = other
        for row in rows.tolist():
            self.reason[row] = reason


class Step(BaseModel):
    """Base of all steps: a recipe's entry is validated into one, unknown settings are refused."""

    model_config = ConfigDict(extra="forbid")

    ONLY_DECIDES: ClassVar[frozenset[str]] = frozenset()
    """Settings that only `decide` looks at: another value needs no new measuring."""

    COMPARES: ClassVar[bool] = False
    """Whether the step compares documents with those of earlier runs."""

    step: str

    def prepare(self, folder: Path) -> None:
        """Loads what the step needs besides the documents, once; `folder` is the input."""

    def transform(self, batch: Batch) -> None:
        """Changes texts."""

    def measure(self, batch: Batch) -> None:
        """Adds columns."""

    def decide(self, table: Table, verdicts: Verdicts) -> None:
        """Drops documents of a block by their columns."""

    def checks(self, _row: Mapping[str, Any]) -> list[Check]:
        """What the step looks at in one document, for an explanation."""
        return []

    def changed(self, _table: Table) -> int:
        """How many documents of a block the step has changed."""
        return 0

    def signal_settings(self) -> dict[str, Any]:
        """The settings on which the stored columns depend."""
        return self.model_dump(mode="json", exclude=set(self.ONLY_DECIDES))


class Ruling(Protocol):
    """What a global step may do with the documents of a run.  Rows are rows of the run."""

    def drop(
        self,
        rows: npt.NDArray[np.int64],
        reason: str,
        *,
        value: npt.NDArray[Any] | float = np.nan,
        threshold: float = np.nan,
        other: npt.NDArray[np.int64] | int = -1,
    ) -> None:
        """Drops documents; `other` is the document that stays instead."""

    def cut(
        self,
        rows: npt.NDArray[np.int64],
        starts: npt.NDArray[np.integer[Any]],
        ends: npt.NDArray[np.integer[Any]],
        reason: str,
    ) -> None:
        """Takes spans of characters out of texts when they are exported; the step records them."""

    def spill(self, dtype: np.dtype[Any]) -> Spill:
        """Room for another pass over records."""

    def scratch(self) -> contextlib.AbstractContextManager[Path]:
        """A folder for files of the step's own, removed afterwards."""

    @property
    def signals(self) -> Signals:
        """The stored blocks, for steps that must look at texts again."""

    @property
    def earlier(self) -> Earlier:
        """The kept documents of earlier runs; their rows come after the run's own and are never dropped."""


class GlobalStep(Step, ABC):
    """Base of the steps that see documents side by side, through records of fixed width.

    Records of all blocks are collected, sorted on disk and given back with equal keys together, so that
    memory does not grow with the number of documents.  Nothing may depend on the number of blocks or parts.
    """

    RECORD: ClassVar[np.dtype[Any]]
    """The records: at least `key` (u8, evenly spread) and `row` (i8, the row of the run)."""

    @abstractmethod
    def collect(self, table: Table, alive: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """The records of a block's rows that no earlier step has dropped."""

    @abstractmethod
    def resolve(self, spill: Spill, ruling: Ruling) -> None:
        """Decides over all records."""
