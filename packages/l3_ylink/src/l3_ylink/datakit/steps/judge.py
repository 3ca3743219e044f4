"""The steps that judge a text by itself: language and quality."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, StringConstraints, field_validator

from l3_ylink.datakit.documents.batch import Batch
from l3_ylink.datakit.purify.language import identify
from l3_ylink.datakit.quality.rules import BY_NAME, RULES, Rule, RuleSet, kind_of
from l3_ylink.datakit.quality.signals import measure

from .base import Check, Step, Table, Verdicts

LanguageName = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}(-[A-Za-z]+)?$|^other$")]
DEFAULT_RULES: tuple[RuleSet, ...] = ("damage", "gopher_quality", "gopher_repetition", "chinese")


class Language(Step):
    """Keeps the wanted languages: "zh" means every Chinese, "zh-Hans" only the simplified, "any" all."""

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
        name = "zh-yue" if language == "yue" else language
        return any(wanted in ("any", language, name) or name.startswith(f"{wanted}-") for wanted in self.keep)

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
    """Rules over signals, with thresholds by language or kind of language (`en`, `zh`, `other`)."""

    ONLY_DECIDES: ClassVar[frozenset[str]] = frozenset({"rules", "thresholds"})

    step: Literal["quality"] = "quality"
    rules: list[RuleSet] = Field(default_factory=lambda: list(DEFAULT_RULES), min_length=1)
    thresholds: dict[LanguageName, dict[str, float | None]] = Field(
        default_factory=dict,
        description="language (de, zh-Hant) or kind (en, zh, other) -> rule -> bound instead of the "
        "published one; null switches the rule off",
    )

    @field_validator("thresholds")
    @classmethod
    def _known(cls, value: dict[str, dict[str, float | None]]) -> dict[str, dict[str, float | None]]:
        unknown = sorted({name for rules in value.values() for name in rules} - set(BY_NAME))
        if unknown:
            raise ValueError(f"no rule {', '.join(unknown)}; the rules are {', '.join(BY_NAME)}")
        return value

    def measure(self, batch: Batch) -> None:
        batch.columns.update(measure(batch.units, batch.texts))

    def threshold(self, rule: Rule, language: str) -> float | None:
        """The bound of a rule here: the recipe's for the language, for its family or for its kind, else the
        published one; None where the rule says nothing.
        """
        kind = kind_of(language)
        for name in (language, language.partition("-")[0], kind):
            own = self.thresholds.get(name, {})
            if rule.name in own:
                return own[rule.name]
        return rule.threshold(kind) if rule.rule_set in self.rules else None

    def decide(self, table: Table, verdicts: Verdicts) -> None:
        languages, which = np.unique(_languages(table), return_inverse=True)
        for number, language in enumerate(languages.tolist()):
            here = which == number
            for rule in RULES:
                threshold = self.threshold(rule, language)
                if threshold is None:
                    continue
                values = table.numbers(rule.signal)
                beyond = values < threshold if rule.bound == "min" else values > threshold
                rows = np.flatnonzero(verdicts.alive & here & beyond)
                if len(rows):
                    verdicts.drop(rows, rule.name, value=values[rows], threshold=threshold)

    def checks(self, row: Mapping[str, Any]) -> list[Check]:
        rows = []
        for rule in RULES:
            threshold = self.threshold(rule, row.get("language", "und"))
            if threshold is not None:
                value = row[rule.signal]
                held = value >= threshold if rule.bound == "min" else value <= threshold
                rows.append(
                    Check("quality", rule.name, rule.signal, value, rule.bound, threshold, bool(held))
                )
        return rows


def _languages(table: Table) -> npt.NDArray[Any]:
    names = table.columns["language"] if "language" in table.columns else ["und"] * len(table)
    return np.asarray(names, str)
