"""Perplexity by n-gram models trained in the kit: how unlike a text is to the texts of a model.

Words of a model are units: words in lower case, and each Chinese or Japanese character.  The folder of a
model:

    perplexity.json     order, counts, discounts, what it was trained on
    vocabulary.txt      the words in the order of their numbers
    words.npy           each word's hash
    slots-N-*.npy       hash tables of the n-grams of order N, read from disk as they are needed, so that
                        all processes of a machine share one copy
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from l3_ylink._kit.documents import digest_of_file
from l3_ylink._kit.files import atomic_write
from l3_ylink._kit.problems import BadInput, NotFound
from l3_ylink.datakit.documents.store import write_whole

from .classifier import probe
from .kneser_ney import Estimate
from .ngram_counts import BEGIN, END, FIRST_WORD, UNKNOWN, bits_of
from .sentences import sentence_starts
from .units import Units

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

FILE = "perplexity.json"
SCHEMA = "ylink-perplexity/1"
SPECIAL = ("<unk>", "<s>", "</s>")
MOST_ORDER = 5


class Scores(NamedTuple):
    """Of each text: log10 probability of its words, how many words (ends of sentences counted), unknown."""

    log10: F64
    words: I64
    unknown: I64

    @property
    def perplexity(self) -> F64:
        """10^(-log10 / words); 0 for a text without words."""
        found: F64 = np.where(self.words > 0, 10 ** (-self.log10 / np.maximum(self.words, 1)), 0.0)
        return found


class Model:
    """A model in its folder.  `NotFound` or a `BadInput` where there is none that fits."""

    def __init__(self, folder: Path) -> None:
        try:
            self.about: dict[str, Any] = json.loads((folder / FILE).read_bytes())
        except FileNotFoundError as error:
            raise NotFound(
                "no model here", field=str(folder), do="train one: `ylink data perplexity train`"
            ) from error
        except ValueError as error:
            raise BadInput("is damaged", field=str(folder / FILE), do="train it again") from error
        if self.about.get("schema") != SCHEMA or self.about.get("probe") != probe():
            raise BadInput("was trained by another version", field=str(folder), do="train it again")
        self.folder = folder
        self.order: int = self.about["order"]
        self.bits = bits_of(self.order)
        self._words = _stored(folder / "words.npy")
        self._by_hash = np.argsort(self._words, kind="stable")
        self._sorted = self._words[self._by_hash]

    @property
    def digest(self) -> str:
        """`sha256:…` of what describes the model, its tables' digests among it."""
        return digest_of_file(self.folder / FILE)

    @cached_property
    def tables(self) -> tuple[tuple[U64, ...], tuple[npt.NDArray[np.float32], ...]]:
        """Of each order from 1: the keys' slots (0 is empty) and beside them probability and back-off."""
        keys = tuple(_stored(self.folder / f"slots-{n}-keys.npy") for n in range(1, self.order + 1))
        values = tuple(_stored(self.folder / f"slots-{n}-values.npy") for n in range(1, self.order + 1))
        return keys, values

    def numbers(self, hashes: U64) -> I64:
        """Word numbers of unit hashes; UNKNOWN where the vocabulary has none."""
        return numbers(self._sorted, self._by_hash, hashes)

    def score(self, units: Units) -> Scores:
        """Scores of each text."""
        words, text = laid_out(units, self.numbers(units.hash))
        keys, values = self.tables
        log10, count, unknown = _query(
            words, text, units.texts, keys, values, self.order, np.uint64(self.bits)
        )
        return Scores(log10, count, unknown)

    def vocabulary(self) -> list[str]:
        """The words by number."""
        return (self.folder / "vocabulary.txt").read_text("utf-8").split("\n")[:-1]


def _stored(path: Path) -> npt.NDArray[Any]:
    try:
        return np.asarray(np.load(path, mmap_mode="r"))
    except (OSError, ValueError) as error:
        raise BadInput("is damaged", field=str(path), why=str(error), do="train the model again") from error


def numbers(in_order: U64, number: I64, hashes: U64) -> I64:
    """Word numbers of hashes, given the vocabulary's hashes in order and the number of each."""
    if not len(in_order):
        return np.full(len(hashes), UNKNOWN, np.int64)
    at = np.minimum(np.searchsorted(in_order, hashes), len(in_order) - 1)
    return np.where(in_order[at] == hashes, number[at] + FIRST_WORD, UNKNOWN).astype(np.int64)


def laid_out(units: Units, words: I64) -> tuple[I64, I64]:
    """Word numbers with BEGIN before and END after each sentence, and the text of each number."""
    starts = np.flatnonzero(sentence_starts(units))
    room = len(words) + 2 * len(starts)
    found = np.empty(room, np.int64)
    sentence = np.cumsum(np.bincount(starts, minlength=len(words))) if len(words) else np.zeros(0, np.int64)
    place = np.arange(len(words)) + 2 * sentence - 1
    found[place] = words
    begins = starts + 2 * np.arange(len(starts))
    found[begins] = BEGIN
    found[np.append(begins[1:], room)[: len(starts)] - 1] = END
    text = np.repeat(units.text_of[starts].astype(np.int64), np.diff(np.append(starts, len(words))) + 2)
    return found, text


@njit(cache=True)
def _slot(keys, key):  # type: ignore[no-untyped-def]
    """Where a key is in an open hash table of 2^n slots that hold key + 1, or -1."""
    mask = np.uint64(len(keys) - 1)
    at = key ^ (key >> np.uint64(32))
    at *= np.uint64(0x9E3779B97F4A7C15)
    at = (at >> np.uint64(20)) & mask
    wanted = key + np.uint64(1)
    while keys[at] != np.uint64(0):
        if keys[at] == wanted:
            return np.int64(at)
        at = (at + np.uint64(1)) & mask
    return np.int64(-1)


@njit(cache=True)
def _fill(keys, order):  # type: ignore[no-untyped-def]
    """The slot of each key in a table of `len(order)` slots."""
    mask = np.uint64(len(order) - 1)
    found = np.empty(len(keys), np.int64)
    for number in range(len(keys)):
        key = keys[number]
        at = key ^ (key >> np.uint64(32))
        at *= np.uint64(0x9E3779B97F4A7C15)
        at = (at >> np.uint64(20)) & mask
        while order[at] != np.uint64(0):
            at = (at + np.uint64(1)) & mask
        order[at] = key + np.uint64(1)
        found[number] = at
    return found


@njit(cache=True)
def _query(words, text, texts, keys, values, order, bits):  # type: ignore[no-untyped-def]
    """Longest match upwards, as every n-gram's ending is in the model too; back-offs of the last match."""
    log10 = np.zeros(texts)
    count = np.zeros(texts, np.int64)
    unknown = np.zeros(texts, np.int64)
    backoff = np.zeros(order + 1)  # of the contexts of 1 … order-1 words that end before this word
    fresh = np.zeros(order + 1)
    known = 0
    length = 0
    for place in range(len(words)):
        word = words[place]
        length = 1 if word == BEGIN else length + 1
        key = np.uint64(0)
        matched = 0
        probability = 0.0
        for n in range(1, min(order, length) + 1):
            key |= np.uint64(words[place - n + 1]) << (bits * np.uint64(n - 1))
            at = _slot(keys[n - 1], key)
            if at < 0:
                break
            matched = n
            probability = values[n - 1][at, 0]
            fresh[n] = values[n - 1][at, 1]
        if word != BEGIN:
            for n in range(matched, known + 1):
                probability += backoff[n]
            log10[text[place]] += probability
            count[text[place]] += 1
            unknown[text[place]] += word == UNKNOWN
        known = min(matched, order - 1)
        for n in range(1, known + 1):
            backoff[n] = fresh[n]
    return log10, count, unknown


def _save(path: Path, array: npt.NDArray[Any]) -> None:
    """A neighbour first: processes that still read the old file keep it."""

    def write_array(neighbour: Path) -> None:
        with open(neighbour, "wb") as stream:
            np.save(stream, array)

    write_whole(path, write_array)


@dataclass(frozen=True)
class Made:
    """What is written of a trained model besides its tables."""

    words: list[str]
    hashes: U64
    about: dict[str, Any]


def write(folder: Path, estimate: Estimate, made: Made) -> Model:
    """Writes a model; `perplexity.json` comes last, so that a folder with it is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).unlink(missing_ok=True)
    digests = {}
    for n, order in enumerate(estimate.orders, 1):
        room = 1 << max(int(len(order.key) * 3 // 2), 1).bit_length()
        slots, values = np.zeros(room, np.uint64), np.zeros((room, 2), np.float32)
        at = _fill(order.key, slots)
        values[at, 0], values[at, 1] = order.probability, order.backoff
        for name, array in (("keys", slots), ("values", values)):
            path = folder / f"slots-{n}-{name}.npy"
            _save(path, array)
            digests[path.name] = digest_of_file(path)
    _save(folder / "words.npy", made.hashes)
    atomic_write(folder / "vocabulary.txt", "".join(f"{word}\n" for word in made.words))
    digests["words.npy"] = digest_of_file(folder / "words.npy")
    about = {
        "schema": SCHEMA,
        "probe": probe(),
        "order": len(estimate.orders),
        "ngrams": [len(order.key) for order in estimate.orders],
        "least_counts": estimate.least,
        "discounts": estimate.discounts,
        **made.about,
        "files": digests,
    }
    atomic_write(folder / FILE, json.dumps(about, ensure_ascii=False, indent=1))
    return Model(folder)
