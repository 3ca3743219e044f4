"""Thresholds that can be turned without measuring again, and the signal that each of them is held against."""

from __future__ import annotations

from typing import NamedTuple

from l3_ylink.datakit.quality.rules import RULES, Kind
from l3_ylink.datakit.recipe import Recipe
from l3_ylink.datakit.steps.base import Step
from l3_ylink.datakit.steps.classify import Classify, Perplexity
from l3_ylink.datakit.steps.judge import Quality

KINDS: tuple[Kind, ...] = ("en", "zh", "other")
#: The column of a step's setting, and whether a document stays at least or at most there.
COLUMNS = {
    ("language", "least_score"): ("language_score", "min"),
    ("personal", "most"): ("personal", "max"),
    ("perplexity", "most_unknown"): ("unknown_words", "max"),
}


class Dial(NamedTuple):
    """A threshold: its setting, the step's place in the recipe, its rule, signal and bound, and where it is.

    `signal` is "" where documents are compared with each other: then there is no curve.  `kind` is the kind
    of language that the threshold is for, "" for all.  `scored`: values below 0 are no scores.
    """

    setting: str
    place: int
    rule: str
    signal: str
    bound: str
    kind: str
    value: float | None
    scored: bool = False


def dials(recipe: Recipe) -> list[Dial]:
    """Every threshold of a recipe, in the order of its steps."""
    return [dial for place, step in enumerate(recipe.steps) for dial in _of(step, place)]


def _of(step: Step, place: int) -> list[Dial]:
    if isinstance(step, Quality):
        return _quality(step, place)
    if isinstance(step, Classify):
        return [
            Dial(f"classify.least.{entry.name}", place, f"low_{entry.name}", f"score_{entry.name}", "min", "",
                 step.least.get(entry.name), scored=True)
            for entry in step.models
        ]  # fmt: skip
    found = _plain(step, place)
    if isinstance(step, Perplexity):
        for name, bounds, bound in (("most", step.most, "max"), ("least", step.least, "min")):
            found += [
                Dial(f"perplexity.{name}.{kind}", place, f"{name}_perplexity", "perplexity", bound, kind,
                     bounds.get(kind), scored=True)
                for kind in step.models
            ]  # fmt: skip
    return found


def _quality(step: Quality, place: int) -> list[Dial]:
    found = []
    for rule in RULES:
        for kind in KINDS:
            value = step.threshold(rule, kind)
            if value is not None:
                setting = f"quality.thresholds.{kind}.{rule.name}"
                found.append(Dial(setting, place, rule.name, rule.signal, rule.bound, kind, value))
    return found


def _plain(step: Step, place: int) -> list[Dial]:
    """The settings of any step that are one number."""
    found = []
    for name in sorted(step.ONLY_DECIDES):
        value = getattr(step, name)
        signal, bound = {**COLUMNS, **_own(step)}.get((step.step, name), ("", ""))
        if signal or (isinstance(value, int | float) and not isinstance(value, bool)):
            if isinstance(value, dict):
                continue
            found.append(Dial(f"{step.step}.{name}", place, name, signal, bound, "", value))
    return found


def _own(step: Step) -> dict[tuple[str, str], tuple[str, str]]:
    """What a step says itself of its settings."""
    said: dict[str, tuple[str, str]] = getattr(type(step), "DIALS", {})
    return {(step.step, name): about for name, about in said.items()}
