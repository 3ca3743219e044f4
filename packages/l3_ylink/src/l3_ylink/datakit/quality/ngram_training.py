"""Training an n-gram model from a stream of texts, read twice: for the vocabulary, then for the counts."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from l3_ylink._kit.problems import BadInput

from .kneser_ney import estimate
from .ngram_counts import END, FIRST_WORD, ROWS_AT_ONCE, U64, Counts, bits_of
from .perplexity import MOST_ORDER, Made, Model, laid_out, numbers, write
from .sentences import words_of
from .units import Units, split_units

CHARACTERS_AT_ONCE = 1_000_000
FORGET_FROM = 4
"""The rarest words are forgotten when this many times the vocabulary is held."""

Texts = Callable[[], Iterable[str]]


def train(
    texts: Texts,
    folder: Path,
    *,
    order: int = 3,
    vocabulary: int = 1_000_000,
    most: int = 20_000_000,
    rows: int = ROWS_AT_ONCE,
    source: dict[str, object] | None = None,
) -> Model:
    """A modified Kneser-Ney model of the texts, written to `folder`.

    `texts` is called twice.  The vocabulary is the most frequent words, at most 2^(64/order) of them; an
    order keeps its `most` n-grams by count.  Memory: the vocabulary, the model, and `rows` counts of 24
    bytes, whatever the number of texts; counts wait beside the model on disk.
    """
    if not 1 <= order <= MOST_ORDER:
        raise BadInput("must be from 1 to 5", field="order")
    room = min(vocabulary, (1 << bits_of(order)) - FIRST_WORD)
    words, hashes = _vocabulary(texts(), room)
    if not words:
        raise BadInput("the texts have no words", field="texts", do="check the field with the text")
    in_order = np.argsort(hashes, kind="stable")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".counting-") as scratch:
        counts = Counts(Path(scratch), order, rows)
        for units in _batches(texts()):
            found, _ = laid_out(units, numbers(hashes[in_order], in_order, units.hash))
            ends = np.cumsum(found == END)
            counts.add(found, np.concatenate([[0], ends[:-1]]).astype(np.int64))
        made = estimate(counts.merge(), len(words) + FIRST_WORD, most, rows)
    about = {"words": counts.words, "sentences": counts.sentences, "source": source or {}}
    return write(folder, made, Made(words, hashes, about))


def _batches(texts: Iterable[str]) -> Iterator[Units]:
    some: list[str] = []
    size = 0
    for text in texts:
        some.append(text)
        size += len(text)
        if size > CHARACTERS_AT_ONCE:
            yield split_units(some)
            some, size = [], 0
    if some:
        yield split_units(some)


def _vocabulary(texts: Iterable[str], most: int) -> tuple[list[str], U64]:
    """The most frequent words and their hashes; equally frequent ones in the order of their hashes."""
    held: dict[int, tuple[int, str]] = {}
    for units in _batches(texts):
        hashes, first, counts = np.unique(units.hash, return_index=True, return_counts=True)
        new = [place for place, value in enumerate(hashes.tolist()) if value not in held]
        written = dict(zip(new, words_of(units, first[new]), strict=True))
        for place, (value, count) in enumerate(zip(hashes.tolist(), counts.tolist(), strict=True)):
            before, word = held.get(value, (0, written.get(place, "")))
            held[value] = (before + count, word)
        if len(held) > FORGET_FROM * most:
            held = dict(_frequent(held, 2 * most))
    chosen = [(value, word) for value, (_, word) in _frequent(held, most)]
    return [word for _, word in chosen], np.asarray([value for value, _ in chosen], np.uint64)


def _frequent(held: dict[int, tuple[int, str]], most: int) -> list[tuple[int, tuple[int, str]]]:
    return sorted(held.items(), key=lambda item: (-item[1][0], item[0]))[:most]
