"""The step that reads files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import Field

from l3_ylink.datakit.documents.batch import Batch
from l3_ylink.datakit.fileqa.extract import How

from .base import Check, Step, Table, Verdicts


class Extract(Step):
    """Reads files: HTML, Markdown, PDF, Office, EPUB, plain text in any encoding, rows, .gz and .zst."""

    step: Literal["extract"] = "extract"
    html: Literal["trafilatura", "visible"] = Field(
        "trafilatura", description="main text by trafilatura, or all visible text (ten times faster)"
    )
    ocr: bool = Field(default=True, description="recognise scanned pages of PDF (extra `ocr`)")
    page_seconds: float = Field(20.0, gt=0, description="CPU seconds that a page of PDF may take")
    form: Literal["text", "markdown"] = Field(
        "text", description="how headings, lists, code and tables of PDF, Office and EPUB are written"
    )
    longest: int = Field(
        1_000_000, ge=1_000, description="characters; a longer document is divided at a line's end"
    )

    @property
    def how(self) -> How:
        """The settings that readers ask for."""
        return How(self.html, self.ocr, self.page_seconds, self.form)

    def measure(self, batch: Batch) -> None:
        batch.columns["error"] = [document.error or "" for document in batch.documents]
        batch.columns["skipped"] = [document.skipped for document in batch.documents]
        batch.columns["undecodable"] = [document.undecodable for document in batch.documents]

    def decide(self, table: Table, verdicts: Verdicts) -> None:
        errors = np.asarray(table.columns["error"], object)
        for reason in sorted(set(errors.tolist()) - {""}):
            verdicts.drop(np.flatnonzero(errors == reason), reason)

    def checks(self, row: Mapping[str, Any]) -> list[Check]:
        error, skipped = row["error"], row.get("skipped", "")
        checks = [Check("extract", error or "readable", "error", error, "is", "", not error)]
        if skipped:
            checks.append(Check("extract", "pages_skipped", "skipped", skipped, "is", skipped, held=True))
        return checks
