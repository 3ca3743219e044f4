"""The step that reads files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import Field

from l3_ylink.datakit.documents.batch import Batch

from .base import Check, Step, Table, Verdicts


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
