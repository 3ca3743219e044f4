"""The step that takes lines out of texts by C4's rules, and texts of which too few sentences are left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from l3_ylink.datakit.documents.batch import Batch
from l3_ylink.datakit.documents.spill import position_key
from l3_ylink.datakit.purify.c4 import REASONS, judge

from .base import Check, GlobalStep, Ruling, Table

if TYPE_CHECKING:
    from l3_ylink.datakit.documents.spill import Spill

TOO_FEW = -1


class C4(GlobalStep):
    """Takes out lines that do not end like sentences, menus and notices, as C4 does; the others stay."""

    ONLY_DECIDES: ClassVar[frozenset[str]] = frozenset({"least_sentences"})
    RECORD: ClassVar[np.dtype[Any]] = np.dtype(
        [("key", np.uint64), ("row", np.int64), ("start", np.int32), ("end", np.int32), ("reason", np.int32)]
    )

    step: Literal["c4"] = "c4"
    least_words: int = Field(3, ge=1, description="words (Chinese: characters) of a line")
    longest_word: int = Field(1_000, ge=1)
    least_sentences: int = Field(5, ge=0, description="sentences that must be left of a text")

    def measure(self, batch: Batch) -> None:
        judged = [judge(text, self.least_words, self.longest_word) for text in batch.texts]
        batch.columns["c4_cuts"] = [np.asarray(found.cuts, np.int32).tobytes() for found in judged]
        batch.columns["c4_sentences"] = np.asarray([found.sentences for found in judged], np.int64)

    def collect(self, table: Table, alive: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        cuts = table.columns["c4_cuts"]
        sentences = table.numbers("c4_sentences")[alive]
        few = sentences < self.least_sentences
        spans = [np.frombuffer(cuts[row], np.int32).reshape(-1, 3) for row in alive[~few].tolist()]
        counts = [len(span) for span in spans]
        records = np.zeros(int(few.sum()) + sum(counts), self.RECORD)
        own, others = records[: few.sum()], records[few.sum() :]
        own["row"], own["reason"], own["start"] = alive[few] + table.first, TOO_FEW, sentences[few]
        others["row"] = np.repeat(alive[~few], counts) + table.first
        if spans:
            joined = np.concatenate(spans)
            others["start"], others["end"], others["reason"] = joined[:, 0], joined[:, 1], joined[:, 2]
        records["key"] = position_key(records["row"], 1 << 40)
        return records

    def resolve(self, spill: Spill, ruling: Ruling) -> None:
        for part in spill.parts("row", "start"):
            few = part[part["reason"] == TOO_FEW]
            ruling.drop(
                few["row"],
                "too_few_sentences",
                value=few["start"].astype(np.float64),
                threshold=self.least_sentences,
            )
            for number, reason in enumerate(REASONS):
                mine = part[part["reason"] == number]
                if len(mine):
                    ruling.cut(mine["row"], mine["start"], mine["end"], reason)

    def checks(self, row: Mapping[str, Any]) -> list[Check]:
        value, least = row["c4_sentences"], self.least_sentences
        return [Check("c4", "too_few_sentences", "c4_sentences", value, "min", least, value >= least)]
