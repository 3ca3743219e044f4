"""Perplexity by n-gram models trained in the kit: how unlike a text is to the texts of a model.

Words of a model are units: words in lower case, and each Chinese or Japanese character.  The folder of a
model:

    perplexity.json     order, counts, discounts, what it was trained on
    vocabulary.txt      the words in the order of their numbers
    words.npy           each word's hash
    ngrams.npy          16 bytes an n-gram (key, log10 probability, log10 back-off): words by number, then a
                        hash table for each higher order; read from disk as they are needed, so that all
                        processes of a machine share one copy
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

    @property
    def digest(self) -> str:
        """`sha256:…` of what describes the model, its tables' digests among it."""
        return digest_of_file(self.folder / FILE)

    @cached_property
    def table(self) -> U64:
        """All orders, one after another: rows of key + 1 (0 is empty), and both values as two floats."""
        return _stored(self.folder / "ngrams.npy")

    @cached_property
    def first(self) -> I64:
        """The row at which each order begins, and the end."""
        return np.concatenate([[0], np.cumsum(self.about["rows"])]).astype(np.int64)

    @cached_property
    def words(self) -> U64:
        """The words' hashes in slots (hash + 1; 0 is empty), and beside them their numbers."""
        hashes = _stored(self.folder / "words.npy")
        slots = np.zeros((1 << max(2 * len(hashes), 1).bit_length(), 2), np.uint64)
        slots[_fill(hashes, slots), 1] = np.arange(FIRST_WORD, FIRST_WORD + len(hashes), dtype=np.uint64)
        return slots

    def score(self, units: Units) -> Scores:
        """Scores of each text."""
        table = self.table
        words, since, first = _laid_out(units.hash, sentence_starts(units), units.first_unit, self.words)
        bits = np.uint64(self.bits)
        scored = _query(words, since, first, table, table.view(np.float32), self.first, bits)
        return Scores(*scored)

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
def _slot(table, low, high, key):  # type: ignore[no-untyped-def]
    """Where a key is in an open hash table, 2^n rows that begin with key + 1; or -1."""
    mask = np.uint64(high - low - 1)
    at = key ^ (key >> np.uint64(32))
    at *= np.uint64(0x9E3779B97F4A7C15)
    at = (at >> np.uint64(20)) & mask
    wanted = key + np.uint64(1)
    while True:
        row = low + np.int64(at)
        found = table[row, 0]
        if found == wanted:
            return row
        if found == np.uint64(0):
            return np.int64(-1)
        at = (at + np.uint64(1)) & mask


@njit(cache=True)
def _fill(keys, table):  # type: ignore[no-untyped-def]
    """Puts keys into an open hash table; the row of each."""
    mask = np.uint64(len(table) - 1)
    found = np.empty(len(keys), np.int64)
    for number in range(len(keys)):
        key = keys[number]
        at = key ^ (key >> np.uint64(32))
        at *= np.uint64(0x9E3779B97F4A7C15)
        at = (at >> np.uint64(20)) & mask
        while table[at, 0] != np.uint64(0):
            at = (at + np.uint64(1)) & mask
        table[at, 0] = key + np.uint64(1)
        found[number] = at
    return found


@njit(cache=True)
def _laid_out(hashes, starts, first_unit, slots):  # type: ignore[no-untyped-def]
    """Word numbers with BEGIN before and END after each sentence, and each one's place in its sentence."""
    words = np.empty(len(hashes) + 2 * starts.sum(), np.uint64)
    since = np.empty(len(words), np.int64)
    first = np.zeros(len(first_unit), np.int64)
    out = 0
    for text in range(len(first_unit) - 1):
        low, high = first_unit[text], first_unit[text + 1]
        for place in range(low, high):
            if starts[place]:
                words[out], since[out] = BEGIN, 0
                out += 1
            at = _slot(slots, 0, len(slots), hashes[place])
            words[out] = slots[at, 1] if at >= 0 else np.uint64(UNKNOWN)
            since[out] = since[out - 1] + 1
            out += 1
            if place + 1 == high or starts[place + 1]:
                words[out], since[out] = END, since[out - 1] + 1
                out += 1
        first[text + 1] = out
    return words, since, first


@njit(cache=True)
def _query(words, since, first_word, table, values, first, bits):  # type: ignore[no-untyped-def]
    """Of each text: the log10 probability, the words with ends of sentences, the unknown words.

    Order by order the longest match of each place grows, as every n-gram's ending is in the model too: the
    look-ups of one order do not wait for each other.  Then each place pays the back-offs of the contexts
    before it that are longer than its match.
    """
    order, size = len(first) - 1, len(words)
    probability, matched = np.empty(size, np.float32), np.ones(size, np.int64)
    backoff = np.zeros((order, size), np.float32)  # [n]: of the context of n+1 words that ends here
    key = words.copy()
    for place in range(size):
        probability[place] = values[words[place], 2]
        backoff[0, place] = values[words[place], 3]
    for n in range(2, order + 1):
        shift = bits * np.uint64(n - 1)
        for place in range(n - 1, size):
            if matched[place] == n - 1 and since[place] >= n - 1:
                key[place] |= words[place - n + 1] << shift
                at = _slot(table, first[n - 1], first[n], key[place])
                if at >= 0:
                    matched[place] = n
                    probability[place] = values[at, 2]
                    backoff[n - 1, place] = values[at, 3]
    texts = len(first_word) - 1
    log10, count, unknown = np.zeros(texts), np.zeros(texts, np.int64), np.zeros(texts, np.int64)
    for text in range(texts):
        for place in range(first_word[text], first_word[text + 1]):
            if since[place]:
                log10[text] += probability[place]
                for n in range(matched[place], min(matched[place - 1], order - 1) + 1):
                    log10[text] += backoff[n - 1, place - 1]
                count[text] += 1
                unknown[text] += words[place] == UNKNOWN
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
    tables = []
    for n, order in enumerate(estimate.orders, 1):
        rows = len(order.key) if n == 1 else 1 << max(int(len(order.key) * 3 // 2), 1).bit_length()
        table = np.zeros((rows, 2), np.uint64)
        at = np.arange(rows) if n == 1 else _fill(order.key, table)
        table[at, 0] = order.key + np.uint64(1)
        table.view(np.float32)[at, 2], table.view(np.float32)[at, 3] = order.probability, order.backoff
        tables.append(table)
    _save(folder / "ngrams.npy", np.concatenate(tables))
    _save(folder / "words.npy", made.hashes)
    atomic_write(folder / "vocabulary.txt", "".join(f"{word}\n" for word in made.words))
    digests = {name: digest_of_file(folder / name) for name in ("ngrams.npy", "words.npy", "vocabulary.txt")}
    about = {
        "schema": SCHEMA,
        "probe": probe(),
        "order": len(estimate.orders),
        "ngrams": [len(order.key) for order in estimate.orders],
        "rows": [len(table) for table in tables],
        "least_counts": estimate.least,
        "discounts": estimate.discounts,
        **made.about,
        "files": digests,
    }
    atomic_write(folder / FILE, json.dumps(about, ensure_ascii=False, indent=1))
    return Model(folder)
