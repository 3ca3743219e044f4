"""fastText as the learner behind a classifier (extra `classify`): the units of a text as its words."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from l3_ylink._kit.problems import BadInput, Failed

from .characters import characters, table_index
from .units import Units

F64 = npt.NDArray[np.float64]
LABEL = "__label__"
WIDTH = 100
BUCKETS = 200_000
SPACE = 0x20


def library() -> ModuleType:
    """The fastText module; a `Failed` names the extra where it is not installed."""
    try:
        import fasttext
    except ImportError as error:
        raise Failed("fastText is not installed", do="pip install 'l3-ylink[classify]'") from error
    return fasttext  # type: ignore[no-any-return]


def spaced(units: Units, longest: int) -> list[str]:
    """Each text's first units in lower case with a space between them: what fastText is fed."""
    count = np.minimum(np.diff(units.first_unit), longest)
    mine = np.arange(len(units.start)) - np.repeat(units.first_unit[:-1], np.diff(units.first_unit))
    chosen = np.flatnonzero(mine < longest)
    length = units.end[chosen] - units.start[chosen] + 1  # with the space
    out = np.concatenate([[0], np.cumsum(length)])
    source = np.arange(out[-1]) - np.repeat(out[:-1] - units.start[chosen], length)
    codes = np.minimum(source, len(units.codes) - 1)
    letters = units.codes[codes]
    small = characters().lower[table_index(letters)]
    letters = np.where(letters < len(characters().lower), small, letters).astype(np.uint32)
    letters[out[1:] - 1] = SPACE
    edges = out[np.concatenate([[0], np.cumsum(count)])]
    raw = letters.tobytes()
    return [
        raw[4 * low : 4 * (high - 1)].decode("utf-32-le", "replace") if high > low else ""
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]


def train(
    path: Path, lines: list[str], truth: list[int], *, epochs: int, rate: float, pairs: bool, seed: int
) -> None:
    """Learns a model and writes it to `path`: one thread, so that the same input gives the same model.

    The lines are shuffled first: fastText reads them in order, and sorted labels would spoil it.
    """
    fasttext = library()
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "train.txt"
        with open(source, "w", encoding="utf-8", errors="replace") as stream:
            order = np.random.default_rng(seed).permutation(len(lines)).tolist()
            stream.writelines(f"{LABEL}{truth[number]} {lines[number]}\n" for number in order)
        model = fasttext.train_supervised(
            str(source),
            epoch=epochs,
            lr=rate,
            dim=WIDTH,
            bucket=BUCKETS,
            wordNgrams=2 if pairs else 1,
            thread=1,
            seed=seed,
            verbose=0,
        )
        neighbour = Path(scratch) / "model.bin"
        model.save_model(str(neighbour))
        path.write_bytes(neighbour.read_bytes())


def load(path: Path) -> Any:
    """A model from its file."""
    fasttext = library()
    try:
        return fasttext.FastText._FastText(model_path=os.fspath(path))  # load_model prints a warning
    except ValueError as error:
        raise BadInput("is no fastText model", field=str(path), why=str(error)) from error


def probabilities(model: Any, lines: list[str], labels: int) -> F64:
    """Of each line, the probability of each label number; equal shares where nothing is known."""
    found = np.full((len(lines), labels), 0.0)
    rows = model.f.multilinePredict([f"{line}\n" for line in lines], labels, -1.0, "strict")
    names, values = rows
    for row, (mine, shares) in enumerate(zip(names, values, strict=True)):
        for name, share in zip(mine, shares, strict=True):
            found[row, int(name.removeprefix(LABEL))] = share
    total = found.sum(1, keepdims=True)
    return np.where(total > 0, found / np.maximum(total, 1e-12), 1 / labels)
