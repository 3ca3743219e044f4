"""The step that looks for words of a list."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PrivateAttr

from l3_ylink._kit.documents import digest_of_file
from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.documents.batch import Batch

from .base import Check, Step, Table, Verdicts

if TYPE_CHECKING:
    from l3_ylink.datakit.purify.sensitive import Automaton

SEPARATOR = "\n"


class Sensitive(Step):
    """Drops texts that are full of words of a list: several different ones, and many for their length.

    A text that mentions one of them (news, law, medicine) stays.  The shipped list has words of advertising
    for gambling, adult sites, fraud, drugs and weapons, in Chinese and English.
    """

    ONLY_DECIDES: ClassVar[frozenset[str]] = frozenset({"least_words", "most_per_thousand"})

    step: Literal["sensitive"] = "sensitive"
    categories: list[str] | None = Field(
        None, description="categories of the lists to look for; all if not given"
    )
    shipped: bool = Field(default=True, description="use the shipped list")
    lists: list[Path] = Field(
        default_factory=list, description="more lists below the input: a word, or category TAB word, a line"
    )
    least_words: int = Field(2, ge=1, description="different words from which a text can be dropped")
    most_per_thousand: float = Field(
        5.0, ge=0, description="words found per 1,000 words up to which it stays"
    )

    _automaton: Automaton | None = PrivateAttr(default=None)
    _digests: list[str] = PrivateAttr(default_factory=list)

    def prepare(self, folder: Path) -> None:
        from l3_ylink.datakit.purify.sensitive import build, read_words, shipped

        if self._automaton is not None:
            return
        words = shipped() if self.shipped else []
        for path in self.lists:
            words += read_words(folder / path)
            self._digests.append(digest_of_file(folder / path))
        known = sorted({word.category for word in words})
        if unknown := sorted(set(self.categories or ()) - set(known)):
            raise BadInput(
                f"no list has {', '.join(unknown)}",
                field="sensitive.categories",
                do=f"categories: {', '.join(known)}",
            )
        self._automaton = build(
            word for word in words if self.categories is None or word.category in self.categories
        )

    def measure(self, batch: Batch) -> None:
        from l3_ylink.datakit.purify.sensitive import find

        assert self._automaton is not None
        found = find(self._automaton, batch.units)
        hits = np.asarray([sum(some.values()) for some in found], np.int64)
        units = np.maximum(np.diff(batch.units.first_unit), 1)
        batch.columns["sensitive_words"] = [
            SEPARATOR.join(sorted(f"{word.category}:{word.word}" for word in some)) for some in found
        ]
        batch.columns["sensitive_kinds"] = np.asarray([len(some) for some in found], np.int64)
        batch.columns["sensitive_per_thousand"] = np.round(1_000 * hits / units, 4)

    def decide(self, table: Table, verdicts: Verdicts) -> None:
        share = table.numbers("sensitive_per_thousand")
        many = table.numbers("sensitive_kinds") >= self.least_words
        rows = np.flatnonzero(verdicts.alive & many & (share > self.most_per_thousand))
        verdicts.drop(rows, "sensitive_words", value=share[rows], threshold=self.most_per_thousand)

    def checks(self, row: Mapping[str, Any]) -> list[Check]:
        share, kinds = row["sensitive_per_thousand"], row["sensitive_kinds"]
        held = kinds < self.least_words or share <= self.most_per_thousand
        return [
            Check(
                "sensitive",
                "sensitive_words",
                "sensitive_per_thousand",
                share,
                "max",
                self.most_per_thousand,
                bool(held),
            )
        ]

    def signal_settings(self) -> dict[str, Any]:
        return {**super().signal_settings(), "digests": list(self._digests)}
