"""Distilling labels of a language model into a small classifier, with a report of who agrees with whom."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import xxhash

from l3_ylink._kit.documents import digest_of_file
from l3_ylink._kit.problems import BadInput

from .agreement import agreement
from .classifier import Classifier, Training, train
from .labelled import Example, texts_of
from .labels import SCORES, score_of

GOOD, BAD = "good", "bad"


def distil(
    labels: Path,
    folder: Path,
    how: Training,
    *,
    least: int = 3,
    gold: Path | None = None,
    text_field: str = "text",
    score_field: str = "score",
) -> Classifier:
    """A classifier of texts that the labeller gives at least `least` points.

    Its report says how it agrees with the labeller on texts it never saw (`test`: kappa, confusion), and,
    with a `gold` file of the same form made by people, how the labeller agrees with them (`gold`).
    """
    if not 1 <= least <= int(SCORES[-1]):
        raise BadInput(f"must be from 1 to {SCORES[-1]}", field="least")
    scored = _scored(labels, text_field, score_field)
    about: dict[str, Any] = {
        "labels": digest_of_file(labels),
        "least": least,
        "scores": dict(sorted(Counter(str(score) for _, score in scored).items())),
    }
    if gold is not None:
        about["gold"] = _against(_scored(gold, text_field, score_field), scored, least)
    examples = [Example(text, GOOD if score >= least else BAD) for text, score in scored]
    return train(examples, folder, how, about)


def _scored(path: Path, text_field: str, score_field: str) -> list[tuple[str, int]]:
    return [
        (text, score_of(row, score_field, f"{path}, line {number}"))
        for number, row, text in texts_of(path, text_field)
    ]


def _against(gold: list[tuple[str, int]], scored: list[tuple[str, int]], least: int) -> dict[str, Any]:
    """Agreement on the texts that both have: of the scores, and of good and bad."""
    known = {_mark(text): score for text, score in scored}
    pairs = [(score, known[_mark(text)]) for text, score in gold if _mark(text) in known]
    if not pairs:
        raise BadInput("the gold rows and the labels have no text in common", field="gold")
    first, second = zip(*pairs, strict=True)
    return {
        "texts": len(pairs),
        "scores": agreement(list(map(str, first)), list(map(str, second)), SCORES),
        "good": agreement(
            [GOOD if score >= least else BAD for score in first],
            [GOOD if score >= least else BAD for score in second],
            (BAD, GOOD),
        ),
    }


def _mark(text: str) -> int:
    return xxhash.xxh3_64_intdigest(" ".join(text.split()).encode("utf-8", "replace"))
