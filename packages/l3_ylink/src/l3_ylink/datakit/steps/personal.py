"""The step that masks personal data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from l3_ylink.datakit.documents.batch import Batch
from l3_ylink.datakit.purify.personal import KINDS, Kind, mask

from .base import Check, Step, Table, Verdicts


class Personal(Step):
    """Masks personal data; with `most` set, a document with more finds than that is dropped."""

    ONLY_DECIDES: ClassVar[frozenset[str]] = frozenset({"most"})
    DIALS: ClassVar[dict[str, tuple[str, str]]] = {"most": ("personal", "max")}

    step: Literal["personal"] = "personal"
    kinds: list[Kind] = Field(default_factory=lambda: list(KINDS), min_length=1)
    most: int | None = Field(None, ge=0, description="finds a document may have; unset: any number")

    def transform(self, batch: Batch) -> None:
        masked = [mask(text, self.kinds) for text in batch.texts]
        for kind in KINDS:
            batch.columns[f"personal_{kind}"] = [found.get(kind, 0) for _, found in masked]
        batch.columns["personal"] = [sum(found.values()) for _, found in masked]
        batch.texts = [text for text, _ in masked]

    def decide(self, table: Table, verdicts: Verdicts) -> None:
        if self.most is None:
            return
        finds = table.numbers("personal")
        rows = np.flatnonzero(verdicts.alive & (finds > self.most))
        verdicts.drop(rows, "too_many_finds", value=finds[rows], threshold=self.most)

    def changed(self, table: Table) -> int:
        return int((table.numbers("personal") > 0).sum())

    def checks(self, row: Mapping[str, Any]) -> list[Check]:
        held = self.most is None or row["personal"] <= self.most
        return [Check("personal", "too_many_finds", "personal", row["personal"], "max", self.most, held)]
