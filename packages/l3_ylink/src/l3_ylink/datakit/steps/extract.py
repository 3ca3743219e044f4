"""The steps that make a clean text of a file: extract, clean, personal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from l3_ylink.datakit.documents.batch import Batch
from l3_ylink.datakit.purify.mojibake import repair
from l3_ylink.datakit.purify.personal import KINDS, Kind, mask
from l3_ylink.datakit.purify.unicode import normalise

from .base import Check, Step, Table, Verdicts

DEFAULT_KINDS: tuple[Kind, ...] = ("email", "identity", "card", "phone")


class Extract(Step):
    """Reads files: HTML, Markdown, PDF, DOCX, plain text in any encoding, JSONL, Parquet, .gz and .zst."""

    step: Literal["extract"] = "extract"
    html: Literal["trafilatura", "visible"] = Field(
        "trafilatura", description="main text by trafilatura, or all visible text (ten times faster)"
    )
    longest: int = Field(
        1_000_000, ge=1_000, description="characters; a longer document is divided at a line's end"
    )

    def measure(self, batch: Batch) -> None:
        batch.columns["error"] = [document.error or "" for document in batch.documents]
        batch.columns["undecodable"] = [document.undecodable for document in batch.documents]

    def decide(self, table: Table, verdicts: Verdicts) -> None:
        errors = np.asarray(table.columns["error"], object)
        for reason in sorted(set(errors.tolist()) - {""}):
            verdicts.drop(np.flatnonzero(errors == reason), reason)

    def checks(self, row: Mapping[str, Any]) -> list[Check]:
        return [
            Check("extract", row["error"] or "readable", "error", row["error"], "is", "", not row["error"])
        ]


class Clean(Step):
    """Unicode policy and certain repairs of mojibake; a text that was right stays as it was."""

    step: Literal["clean"] = "clean"
    narrow: bool = Field(default=True, description="full-width letters and digits become ASCII")
    mojibake: bool = Field(default=True, description="repair UTF-8 that was read in another encoding")

    def transform(self, batch: Batch) -> None:
        texts = [normalise(text, narrow=self.narrow) for text in batch.texts]
        repaired = [repair(text) for text in texts] if self.mojibake else [(text, 0) for text in texts]
        batch.columns["mojibake_lines"] = [count for _, count in repaired]
        batch.columns["cleaned"] = [
            before != after for before, (after, _) in zip(batch.texts, repaired, strict=True)
        ]
        batch.texts = [text for text, _ in repaired]

    def changed(self, table: Table) -> int:
        return int(table.numbers("cleaned").sum())

    def checks(self, row: Mapping[str, Any]) -> list[Check]:
        lines = row["mojibake_lines"]
        return [Check("clean", "repaired_lines", "mojibake_lines", lines, "is", lines, held=True)]


class Personal(Step):
    """Masks personal data; with `most` set, a document with more finds than that is dropped."""

    ONLY_DECIDES: ClassVar[frozenset[str]] = frozenset({"most"})

    step: Literal["personal"] = "personal"
    kinds: list[Kind] = Field(default_factory=lambda: list(DEFAULT_KINDS), min_length=1)
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
