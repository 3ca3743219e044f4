"""The steps that judge a text by itself: language and quality."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from l3_ylink.datakit.documents.batch import Batch
from l3_ylink.datakit.purify.language import identify
from l3_ylink.datakit.quality.rules import BY_NAME, RULES, Kind, Rule, RuleSet, kind_of
from l3_ylink.datakit.quality.signals import measure

from .base import Check, Step, Table, Verdicts

DEFAULT_RULES: tuple[RuleSet, ...] = ("damage", "gopher_quality", "gopher_repetition", "chinese")


class Language(Step):
    """Keeps the wanted languages: "zh" means simplified and traditional, "zh-Hans" only the one."""

    ONLY_DECIDES: ClassVar[frozenset[str]] = frozenset({"keep", "least_score"})

    step: Literal["language"] = "language"
    keep: list[str] = Field(default_factory=lambda: ["en", "zh"], min_length=1)
    least_score: float = Field(0.3, ge=0, le=1)

    def measure(self, batch: Batch) -> None:
        languages, scores = identify(batch.units, batch.texts)
        batch.columns["language"] = languages
        batch.columns["language_score"] = np.asarray(scores)

    def decide(self, table: Table, verdicts: Verdicts) -> None:
        languages = np.asarray(table.columns["language"], object)
        for language in sorted(set(languages.tolist())):
            if not self._wanted(language):
                verdicts.drop(
                    np.flatnonzero(verdicts.alive & (languages == language)), f"language_{language}"
                )
        scores = table.numbers("language_score")
        rows = np.flatnonzero(verdicts.alive & (scores < self.least_score))
        verdicts.drop(rows, "least_score", value=scores[rows], threshold=self.least_score)

    def _wanted(self, language: str) -> bool:
        return any(language == wanted or language.startswith(f"{wanted}-") for wanted in self.keep)

    def checks(self, row: Mapping[str, Any]) -> list[Check]:
        language, score = row["language"], row["language_score"]
        return [
            Check(
                "language", "keep", "language", language, "in", ", ".join(self.keep), self._wanted(language)
            ),
            Check(
                "language",
                "least_score",
                "language_score",
                score,
                "min",
                self.least_score,
                score >= self.least_score,
            ),
        ]


class Quality(Step):
    """Rules over signals, with thresholds by kind of language (`en`, `zh`, `other`)."""

    ONLY_DECIDES: ClassVar[frozenset[str]] = frozenset({"rules", "thresholds"})

    step: Literal["quality"] = "quality"
    rules: list[RuleSet] = Field(default_factory=lambda: list(DEFAULT_RULES), min_length=1)
    thresholds: dict[Kind, dict[str, float | None]] = Field(
        default_factory=dict, description="rule -> bound instead of the published one; null switches it off"
    )

    @field_validator("thresholds")
    @classmethod
    def _known(cls, value: dict[Kind, dict[str, float | None]]) -> dict[Kind, dict[str, float | None]]:
        unknown = sorted({name for rules in value.values() for name in rules} - set(BY_NAME))
        if unknown:
            raise ValueError(f"no rule {', '.join(unknown)}; the rules are {', '.join(BY_NAME)}")
        return value

    def measure(self, batch: Batch) -> None:
        batch.columns.update(measure(batch.units, batch.texts))

    def threshold(self, rule: Rule, kind: Kind) -> float | None:
        """The bound of a rule here: the recipe's, else the published one; None where it says nothing."""
        own = self.thresholds.get(kind, {})
        if rule.name in own:
            return own[rule.name]
        return rule.threshold(kind) if rule.rule_set in self.rules else None

    def decide(self, table: Table, verdicts: Verdicts) -> None:
        kinds = np.asarray([kind_of(language) for language in _languages(table)], object)
        for kind in sorted(set(kinds.tolist())):
            here = kinds == kind
            for rule in RULES:
                threshold = self.threshold(rule, kind)
                if threshold is None:
                    continue
                values = table.numbers(rule.signal)
                beyond = values < threshold if rule.bound == "min" else values > threshold
                rows = np.flatnonzero(verdicts.alive & here & beyond)
                verdicts.drop(rows, rule.name, value=values[rows], threshold=threshold)

    def checks(self, row: Mapping[str, Any]) -> list[Check]:
        kind = kind_of(row.get("language", "und"))
        rows = []
        for rule in RULES:
            threshold = self.threshold(rule, kind)
            if threshold is not None:
                value = row[rule.signal]
                held = value >= threshold if rule.bound == "min" else value <= threshold
                rows.append(
                    Check("quality", rule.name, rule.signal, value, rule.bound, threshold, bool(held))
                )
        return rows


def _languages(table: Table) -> list[str]:
    return list(table.columns["language"]) if "language" in table.columns else ["und"] * len(table)
