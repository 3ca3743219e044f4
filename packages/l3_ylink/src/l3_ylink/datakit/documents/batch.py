"""A batch: some documents side by side, their texts and the signals measured on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from l3_ylink.datakit.quality.units import Units, split_units


@dataclass(frozen=True)
class Document:
    """One text with where it came from.  `error` says why there is no text; `date` is ISO 8601.

    `skipped` names pages of the file that could not be read.
    """

    id: str
    source: str
    path: str
    format: str
    text: str = ""
    error: str | None = None
    title: str = ""
    undecodable: int = 0
    url: str = ""
    date: str = ""
    skipped: str = ""


@dataclass
class Batch:
    """Documents as parallel lists.  Transforming steps replace `texts`, measuring steps add `columns`."""

    documents: list[Document]
    columns: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._texts = [document.text for document in self.documents]

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def texts(self) -> list[str]:
        """The texts as they are now; "" where a document could not be read."""
        return self._texts

    @texts.setter
    def texts(self, texts: list[str]) -> None:
        self._texts = texts
        self.__dict__.pop("units", None)

    @cached_property
    def units(self) -> Units:
        """Words and CJK characters of all texts, split once for every step that needs them."""
        return split_units(self._texts)
