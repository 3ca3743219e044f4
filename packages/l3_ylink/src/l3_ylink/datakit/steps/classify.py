"""The steps that score texts by trained models: classifiers, and perplexity by n-gram models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, StringConstraints, model_validator

from l3_ylink.datakit.documents.batch import Batch
from l3_ylink.datakit.quality.rules import Kind, kind_of
from l3_ylink.datakit.quality.units import split_units

from .base import Check, Step, Table, Verdicts

if TYPE_CHECKING:
    from l3_ylink.datakit.quality.classifier import Classifier
    from l3_ylink.datakit.quality.perplexity import Model

F64 = npt.NDArray[np.float64]
Word = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,31}$")]

NOT_SCORED = -1.0
"""The stored score of a text that no model was made for."""


class ClassifierEntry(BaseModel):
    """A trained classifier: a name for its column, and its folder."""

    model_config = ConfigDict(extra="forbid")

    name: Word = Field(description="the scores are stored as score_NAME")
    path: Path = Field(description="its folder, relative to the input folder")
    languages: list[Kind] | None = Field(None, description="score these kinds of language only; all without")


class Classify(Step):
    """Scores texts by trained classifiers; drops those below the least score of one."""

    ONLY_DECIDES: ClassVar[frozenset[str]] = frozenset({"least"})

    step: Literal["classify"] = "classify"
    models: list[ClassifierEntry] = Field(min_length=1)
    least: dict[Word, Annotated[float, Field(ge=0, le=1)]] = Field(
        default_factory=dict, description="name -> calibrated probability from which a text stays"
    )

    _loaded: dict[str, Classifier] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _names(self) -> Self:
        names = [entry.name for entry in self.models]
        if len(set(names)) < len(names):
            raise ValueError("two classifiers have the same name")
        if unknown := sorted(set(self.least) - set(names)):
            raise ValueError(f"least: no classifier {', '.join(unknown)}; there are {', '.join(names)}")
        return self

    def prepare(self, folder: Path) -> None:
        from l3_ylink.datakit.quality.classifier import load

        for entry in self.models:
            if entry.name not in self._loaded:
                self._loaded[entry.name] = load(folder / entry.path)

    def measure(self, batch: Batch) -> None:
        for entry in self.models:
            scores, _ = self._loaded[entry.name].score(batch.units)
            if entry.languages is not None:
                scores = np.where(np.isin(_kinds(batch), entry.languages), scores, NOT_SCORED)
            batch.columns[f"score_{entry.name}"] = np.round(scores, 6)

    def decide(self, table: Table, verdicts: Verdicts) -> None:
        for name, least in self.least.items():
            scores = table.numbers(f"score_{name}")
            rows = np.flatnonzero(verdicts.alive & (scores >= 0) & (scores < least))
            verdicts.drop(rows, f"low_{name}", value=scores[rows], threshold=least)

    def checks(self, row: Mapping[str, Any]) -> list[Check]:
        found = []
        for name, least in self.least.items():
            value = row[f"score_{name}"]
            held = not 0 <= value < least
            found.append(Check("classify", f"low_{name}", f"score_{name}", value, "min", least, held))
        return found

    def signal_settings(self) -> dict[str, Any]:
        return {**super().signal_settings(), "digests": {n: m.digest for n, m in self._loaded.items()}}


class Perplexity(Step):
    """Stores how unlike a text is to the texts of an n-gram model; drops what is beyond the bounds."""

    ONLY_DECIDES: ClassVar[frozenset[str]] = frozenset({"most", "least", "most_unknown"})

    step: Literal["perplexity"] = "perplexity"
    models: dict[Kind, Path] = Field(
        min_length=1, description="kind of language -> folder of its model, relative to the input folder"
    )
    most: dict[Kind, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict, description="perplexity up to which a text stays: beyond is word salad"
    )
    least: dict[Kind, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict, description="perplexity from which a text stays: below is one thing said again"
    )
    most_unknown: float = Field(1.0, ge=0, le=1, description="share of words that the model does not know")

    _loaded: dict[Kind, Model] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        for bounds in (self.most, self.least):
            if unknown := sorted(set(bounds) - set(self.models)):
                raise ValueError(f"no model for {', '.join(unknown)}")
        return self

    def prepare(self, folder: Path) -> None:
        from l3_ylink.datakit.quality.perplexity import Model

        for kind, path in self.models.items():
            if kind not in self._loaded:
                self._loaded[kind] = Model(folder / path)

    def measure(self, batch: Batch) -> None:
        kinds = _kinds(batch)
        perplexity = np.full(len(batch), NOT_SCORED)
        unknown = np.zeros(len(batch))
        for kind, model in self._loaded.items():
            mine = np.flatnonzero(kinds == kind)
            if len(mine):
                whole = len(mine) == len(batch)
                units = batch.units if whole else split_units([batch.texts[row] for row in mine.tolist()])
                scores = model.score(units)
                perplexity[mine] = scores.perplexity
                unknown[mine] = scores.unknown / np.maximum(scores.words, 1)
        batch.columns["perplexity"] = np.round(perplexity, 3)
        batch.columns["unknown_words"] = np.round(unknown, 6)

    def decide(self, table: Table, verdicts: Verdicts) -> None:
        values, unknown = table.numbers("perplexity"), table.numbers("unknown_words")
        kinds = _kinds_of(table.columns.get("language"), len(table))
        for kind in self.models:
            here = (kinds == kind) & (values > 0)
            most, least = self.most.get(kind, np.inf), self.least.get(kind, 0.0)
            rows = np.flatnonzero(verdicts.alive & here & (values > most))
            verdicts.drop(rows, "most_perplexity", value=values[rows], threshold=most)
            rows = np.flatnonzero(verdicts.alive & here & (values < least))
            verdicts.drop(rows, "least_perplexity", value=values[rows], threshold=least)
        rows = np.flatnonzero(verdicts.alive & (unknown > self.most_unknown))
        verdicts.drop(rows, "most_unknown", value=unknown[rows], threshold=self.most_unknown)

    def checks(self, row: Mapping[str, Any]) -> list[Check]:
        kind, value, unknown = kind_of(row.get("language", "und")), row["perplexity"], row["unknown_words"]
        found = []
        if kind in self.most:
            held = value <= self.most[kind]
            found.append(
                Check("perplexity", "most_perplexity", "perplexity", value, "max", self.most[kind], held)
            )
        if kind in self.least:
            held = not 0 < value < self.least[kind]
            found.append(
                Check("perplexity", "least_perplexity", "perplexity", value, "min", self.least[kind], held)
            )
        held = unknown <= self.most_unknown
        found.append(
            Check("perplexity", "most_unknown", "unknown_words", unknown, "max", self.most_unknown, held)
        )
        return found

    def signal_settings(self) -> dict[str, Any]:
        return {**super().signal_settings(), "digests": {n: m.digest for n, m in self._loaded.items()}}


def _kinds(batch: Batch) -> npt.NDArray[np.object_]:
    return _kinds_of(batch.columns.get("language"), len(batch))


def _kinds_of(languages: Any, count: int) -> npt.NDArray[np.object_]:
    names = ["und"] * count if languages is None else list(languages)
    return np.asarray([kind_of(name) for name in names], object)
