"""Classifiers of texts: trained from labelled rows, calibrated on held-out ones, applied to any text.

The folder of a classifier:

    classifier.json    kind, labels, settings, calibration, what it was trained on and how well it does
    weights.npz        the `ngrams` kind: weights of hashed words and pairs of words
    model.bin          the `fasttext` kind

Every text goes into training (80 %), calibration (10 %) or test (10 %) by the hash of its text, so that
equal texts are always on one side and the test says what unseen texts will see.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import xxhash

from l3_ylink._kit.documents import digest_of_file
from l3_ylink._kit.files import atomic_write
from l3_ylink._kit.problems import BadInput, NotFound
from l3_ylink.datakit.documents.store import write_whole

from . import fasttext, hashed
from .agreement import agreement
from .calibration import Calibration, Method, fit, reliability
from .labelled import Example
from .units import Units, split_units

Kind = Literal["ngrams", "fasttext"]
F64 = npt.NDArray[np.float64]

FILE, WEIGHTS, MODEL = "classifier.json", "weights.npz", "model.bin"
SCHEMA = "ylink-classifier/1"
PROBE = "The probe, 试一试 42"
TEXTS_AT_ONCE = 2_000
LEAST_EXAMPLES = 20


@dataclass(frozen=True)
class Training:
    """How a classifier is trained.

    `longest`: units of a text that are looked at, in training and later; `bits`: 2^bits buckets of the
    `ngrams` kind; `rate`: 1 suits `ngrams`, 0.5 `fasttext`; `pairs`: pairs of words for `fasttext`;
    `most_weights`: buckets that are kept, those with the largest weights, in half precision (a small file).
    """

    kind: Kind = "ngrams"
    positive: str = ""
    calibration: Method = "isotonic"
    longest: int = 1_000
    bits: int = 20
    epochs: int = 5
    rate: float | None = None
    pairs: bool = True
    most_weights: int | None = None
    seed: int = 1


@dataclass(frozen=True)
class Classifier:
    """A trained classifier; `report` is what the test said."""

    folder: Path
    kind: Kind
    labels: tuple[str, ...]
    positive: str
    longest: int
    bits: int
    calibration: Calibration
    report: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def _learned(self) -> Any:
        if self.kind == "fasttext":
            return fasttext.load(self.folder / MODEL)
        with np.load(self.folder / WEIGHTS) as stored:
            dense = np.zeros((1 << self.bits, len(self.labels)), np.float32)
            dense[stored["bucket"]] = stored["weights"]
            return dense, stored["bias"]

    def probabilities(self, units: Units) -> F64:
        """Raw probabilities of each label (columns in the order of `labels`) for each text (rows)."""
        if self.kind == "fasttext":
            lines = fasttext.spaced(units, self.longest)
            return fasttext.probabilities(self._learned, lines, len(self.labels))
        found, start = hashed.buckets(units, self.bits, self.longest)
        return hashed.probabilities(found, start, *self._learned)

    def score(self, units: Units) -> tuple[F64, list[str]]:
        """Of each text, the calibrated probability of the positive label, and its likeliest label."""
        raw = self.probabilities(units)
        names = [self.labels[number] for number in raw.argmax(1).tolist()] if len(raw) else []
        return self.calibration.apply(raw[:, self.labels.index(self.positive)]), names

    @property
    def digest(self) -> str:
        """`sha256:…` of what decides the scores."""
        return digest_of_file(self.folder / FILE)


def load(folder: Path) -> Classifier:
    """A classifier from its folder; `NotFound` or a `BadInput` where there is none that fits."""
    try:
        value = json.loads((folder / FILE).read_bytes())
    except FileNotFoundError as error:
        raise NotFound(
            "no classifier here", field=str(folder), do="train one: `ylink data classifier train`"
        ) from error
    except ValueError as error:
        raise BadInput("is damaged", field=str(folder / FILE), do="train it again") from error
    if value.get("schema") != SCHEMA or value.get("probe") != probe():
        raise BadInput("was trained by another version", field=str(folder), do="train it again")
    model = folder / (MODEL if value["kind"] == "fasttext" else WEIGHTS)
    if not model.exists() or digest_of_file(model) != value["model"]:
        raise BadInput("does not belong to its classifier.json", field=str(model), do="train it again")
    calibration = Calibration(
        value["calibration"]["method"], tuple(value["calibration"]["x"]), tuple(value["calibration"]["y"])
    )
    return Classifier(
        folder,
        value["kind"],
        tuple(value["labels"]),
        value["positive"],
        value["longest"],
        value["bits"],
        calibration,
        value["report"],
    )


def probe() -> str:
    """A mark of how texts are split and hashed here: a model made with another mark would score nonsense."""
    return split_units([PROBE]).hash.tobytes().hex()


def train(
    examples: Sequence[Example], folder: Path, how: Training, about: dict[str, Any] | None = None
) -> Classifier:
    """Trains, calibrates, tests and writes a classifier; the same rows give the same classifier.

    `about`: more for the report, as where the labels come from.

    Raises `BadInput` where there are too few rows, one label only, or no row with the positive label.
    """
    labels = _labels(examples, how.positive)
    parts = {name: [row for row in examples if part_of(row.text) == name] for name in PARTS}
    if len(parts["train"]) < LEAST_EXAMPLES or {row.label for row in parts["train"]} < set(labels):
        raise BadInput(
            f"too few examples to train on: {len(parts['train'])} rows of {len(labels)} labels",
            do=f"give at least {LEAST_EXAMPLES} rows with several of every label",
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).unlink(missing_ok=True)
    model = folder / (MODEL if how.kind == "fasttext" else WEIGHTS)
    _learn(model, parts["train"], labels, how)
    raw = Classifier(folder, how.kind, labels, how.positive, how.longest, how.bits, Calibration())
    held, truth = _scores(raw, parts["calibrate"])
    made = Classifier(
        folder,
        how.kind,
        labels,
        how.positive,
        how.longest,
        how.bits,
        fit(how.calibration, held, truth),
        _report(raw, parts, how, (held, truth)) | ({"source": about} if about else {}),
    )
    _write(made, model)
    return made


PARTS = ("train", "calibrate", "test")


def part_of(text: str) -> str:
    """The part that a text belongs to: by its hash, so that equal texts stay together."""
    digit = xxhash.xxh3_64_intdigest(" ".join(text.split()).encode("utf-8", "replace")) % 10
    return {8: "calibrate", 9: "test"}.get(digit, "train")


def _labels(examples: Sequence[Example], positive: str) -> tuple[str, ...]:
    labels = tuple(sorted({row.label for row in examples}))
    if len(labels) < 2:
        raise BadInput("there is only one label", field="label", do="give rows of two labels or more")
    if positive not in labels:
        raise BadInput(
            f"no row has the label {positive!r}", field="positive", do=f"choose one of {', '.join(labels)}"
        )
    return labels


def _learn(model: Path, rows: list[Example], labels: tuple[str, ...], how: Training) -> None:
    truth = [labels.index(row.label) for row in rows]
    if how.kind == "fasttext":
        lines = []
        for some in _groups(rows):
            lines += fasttext.spaced(split_units([row.text for row in some]), how.longest)
        rate = 0.5 if how.rate is None else how.rate
        fasttext.train(model, lines, truth, epochs=how.epochs, rate=rate, pairs=how.pairs, seed=how.seed)
        return
    found, lengths = [], []
    for some in _groups(rows):
        mine, start = hashed.buckets(split_units([row.text for row in some]), how.bits, how.longest)
        found.append(mine)
        lengths.append(np.diff(start))
    weights, bias = hashed.learn(
        np.concatenate(found),
        np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64),
        np.asarray(truth, np.int32),
        len(labels),
        bits=how.bits,
        epochs=how.epochs,
        rate=1.0 if how.rate is None else how.rate,
        seed=how.seed,
    )
    weights -= weights.mean(1, keepdims=True)  # a softmax does not see it, and zero means nothing
    used = np.flatnonzero(weights.any(1)).astype(np.uint32)
    save, kept = np.savez, weights[used]
    if how.most_weights is not None:
        order = np.lexsort((used, -np.abs(kept).max(1)))[: how.most_weights]
        used = np.sort(used[order])
        save, kept = np.savez_compressed, weights[used].astype(np.float16)

    def write(neighbour: Path) -> None:
        with open(neighbour, "wb") as stream:
            save(stream, bucket=used, weights=kept, bias=bias)

    write_whole(model, write)


def _groups(rows: list[Example]) -> list[list[Example]]:
    return [rows[first : first + TEXTS_AT_ONCE] for first in range(0, len(rows), TEXTS_AT_ONCE)]


def _scores(classifier: Classifier, rows: list[Example]) -> tuple[F64, npt.NDArray[np.bool_]]:
    parts = [classifier.score(split_units([row.text for row in some]))[0] for some in _groups(rows)]
    truth = np.asarray([row.label == classifier.positive for row in rows], bool)
    return np.concatenate([np.zeros(0), *parts]), truth


def _report(
    raw: Classifier,
    parts: dict[str, list[Example]],
    how: Training,
    held: tuple[F64, npt.NDArray[np.bool_]],
) -> dict[str, Any]:
    """What the test rows say: agreement with their labels, reliability before and after calibration."""
    scores, truth = _scores(raw, parts["test"])
    names = []
    for some in _groups(parts["test"]):
        names += raw.score(split_units([row.text for row in some]))[1]
    told = [row.label for row in parts["test"]]
    return {
        "settings": asdict(how),
        "rows": {name: len(rows) for name, rows in parts.items()},
        "test": agreement(told, names, raw.labels),
        "reliability": {
            "raw": reliability(scores, truth),
            "calibrated": reliability(fit(how.calibration, *held).apply(scores), truth),
        },
    }


def _write(made: Classifier, model: Path) -> None:
    value = {
        "schema": SCHEMA,
        "kind": made.kind,
        "labels": made.labels,
        "positive": made.positive,
        "longest": made.longest,
        "bits": made.bits,
        "probe": probe(),
        "model": digest_of_file(model),
        "calibration": asdict(made.calibration),
        "report": made.report,
    }
    atomic_write(made.folder / FILE, json.dumps(value, ensure_ascii=False, indent=1))
