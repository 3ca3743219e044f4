"""The step that keeps evaluation items out of the training text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from l3_ylink._kit.documents import digest_of_file
from l3_ylink.datakit.documents.batch import Batch

from .base import Check, Step, Table, Verdicts

if TYPE_CHECKING:
    from l3_ylink.datakit.purify.contamination import Index

SEPARATOR = "\n"


class EvaluationSet(BaseModel):
    """A JSONL file (plain or .gz) of evaluation items and which of their fields to compare."""

    model_config = ConfigDict(extra="forbid")

    name: str
    path: Path = Field(description="relative to the input folder")
    fields: list[str] = Field(default_factory=lambda: ["question"], min_length=1)


class Decontaminate(Step):
    """Drops texts that share runs of words (Chinese: characters) with evaluation items."""

    ONLY_DECIDES: ClassVar[frozenset[str]] = frozenset({"least_share"})

    step: Literal["decontaminate"] = "decontaminate"
    against: list[EvaluationSet] = Field(min_length=1)
    words: int = Field(13, ge=6, le=100)
    characters: int = Field(16, ge=10, le=200)
    least_share: float = Field(
        0.0, ge=0, le=1, description="share of an item's runs from which a text is dropped"
    )

    _index: Index | None = PrivateAttr(default=None)
    _digests: list[str] = PrivateAttr(default_factory=list)

    def prepare(self, folder: Path) -> None:
        from l3_ylink.datakit.purify.contamination import build_index, read_items

        if self._index is not None:
            return
        items = []
        for entry in self.against:
            path = folder / entry.path
            items += read_items(path, entry.name, entry.fields)
            self._digests.append(digest_of_file(path))
        self._index = build_index(items, self.words, self.characters)

    @property
    def index(self) -> Index:
        """The items' runs, once `prepare` was called."""
        assert self._index is not None
        return self._index

    def measure(self, batch: Batch) -> None:
        from l3_ylink.datakit.purify.contamination import find_hits

        index = self.index
        shares = [
            sorted(
                (index.items[item], round(len(runs) / index.runs_of_item[item], 4))
                for item, runs in hit.runs.items()
            )
            for hit in find_hits(batch.units, index)
        ]
        batch.columns["contaminated_by"] = [SEPARATOR.join(name for name, _ in some) for some in shares]
        batch.columns["contaminated_shares"] = [
            SEPARATOR.join(str(share) for _, share in some) for some in shares
        ]
        batch.columns["contaminated_share"] = np.asarray(
            [max((share for _, share in some), default=0.0) for some in shares]
        )

    def decide(self, table: Table, verdicts: Verdicts) -> None:
        shares = table.numbers("contaminated_share")
        rows = np.flatnonzero(verdicts.alive & (shares > 0) & (shares >= self.least_share))
        verdicts.drop(rows, "shares_evaluation_items", value=shares[rows], threshold=self.least_share)

    def checks(self, row: Mapping[str, Any]) -> list[Check]:
        value = row["contaminated_share"]
        held = not value or value < self.least_share
        rule = "shares_evaluation_items"
        return [Check("decontaminate", rule, "contaminated_share", value, "max", self.least_share, held)]

    def signal_settings(self) -> dict[str, Any]:
        return {**super().signal_settings(), "digests": list(self._digests)}

    @property
    def method(self) -> str:
        """The method in the manifest's words."""
        return (
            f"runs of {self.words} words or {self.characters} Chinese characters, share > {self.least_share}"
        )
