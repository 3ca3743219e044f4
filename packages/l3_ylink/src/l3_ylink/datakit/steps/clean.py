"""The steps that mend and unify texts: clean, convert."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from l3_ylink.datakit.documents.batch import Batch
from l3_ylink.datakit.purify.convert import Target, convert
from l3_ylink.datakit.purify.mojibake import Repaired, repair
from l3_ylink.datakit.purify.pinyin import Policy
from l3_ylink.datakit.purify.unicode import Form, normalise, survey

from .base import Check, Step, Table


class Clean(Step):
    """Certain repairs of mojibake, then the Unicode policy; a text that was right stays as it was."""

    step: Literal["clean"] = "clean"
    mojibake: bool = Field(
        default=True, description="repair UTF-8 read as another encoding, and GBK read one byte late"
    )
    pinyin: Policy = Field(
        "converted", description="annotations that a converter left behind characters: those, all, off"
    )
    form: Form = Field("NFC", description="NFC, or NFKC: compatibility characters as plain ones")
    narrow: bool = Field(default=True, description="full-width letters and digits become ASCII")

    def transform(self, batch: Batch) -> None:
        seen = [survey(text) for text in batch.texts]
        repaired = [self._repaired(text) for text in batch.texts]
        texts = [normalise(found.text, narrow=self.narrow, form=self.form) for found in repaired]
        batch.columns["mojibake_lines"] = [found.lines for found in repaired]
        batch.columns["pinyin_annotations"] = [found.annotations for found in repaired]
        for name in ("control", "zero_width", "private_use"):
            batch.columns[f"{name}_characters"] = [getattr(found, name) for found in seen]
        batch.columns["cleaned"] = [before != after for before, after in zip(batch.texts, texts, strict=True)]
        batch.texts = texts

    def _repaired(self, text: str) -> Repaired:
        return repair(text, pinyin=self.pinyin) if self.mojibake else Repaired(text)

    def changed(self, table: Table) -> int:
        return int(table.numbers("cleaned").sum())

    def checks(self, row: Mapping[str, Any]) -> list[Check]:
        names = {
            "repaired_lines": "mojibake_lines",
            "annotations": "pinyin_annotations",
            "control": "control_characters",
            "zero_width": "zero_width_characters",
            "private_use": "private_use_characters",
        }
        return [
            Check("clean", rule, signal, row[signal], "is", row[signal], held=True)
            for rule, signal in names.items()
        ]


class Convert(Step):
    """Chinese texts in one script and, with `phrases`, in the words of its region (软件, 軟體), by OpenCC."""

    step: Literal["convert"] = "convert"
    to: Target = Field("zh-Hans", description="zh-Hans, zh-Hant, or zh-Hant as written in TW or HK")
    phrases: bool = Field(default=False, description="words of the region too, not only characters")

    def transform(self, batch: Batch) -> None:
        texts = [convert(text, self.to, phrases=self.phrases) for text in batch.texts]
        batch.columns["converted"] = [
            before != after for before, after in zip(batch.texts, texts, strict=True)
        ]
        batch.texts = texts

    def changed(self, table: Table) -> int:
        return int(table.numbers("converted").sum())

    def checks(self, row: Mapping[str, Any]) -> list[Check]:
        converted = row["converted"]
        return [Check("convert", "converted", "converted", converted, "is", converted, held=True)]
