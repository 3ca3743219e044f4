"""Words of a list in texts, all at once, by the automaton of Aho and Corasick (1975).

Letters are compared in lower case, full-width ones as narrow ones, traditional characters as simplified
ones.  A word that begins or ends with a letter or digit of an alphabet is found only where a word begins or
ends there; between Chinese characters there is no such border.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.quality.characters import DIGIT, HAN, KANA, LETTER, TABLE_SIZE, characters, codes_of
from l3_ylink.datakit.quality.units import Units

from .folding import FIRST, simplified

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

WIDE, WIDE_END, NARROW = 0xFF01, 0xFF5F, 0x21
LONGEST = 200
PAIR, PAIRS = 0x9E37, 1 << 16


class Word(NamedTuple):
    """A word of a list and its category."""

    category: str
    word: str


def shipped() -> list[Word]:
    """The list in the package: advertising of gambling, adult sites, fraud, drugs and weapons."""
    text = (files("l3_ylink.datakit.purify") / "data" / "sensitive.tsv").read_text("utf-8")
    return parse_words(text, "sensitive.tsv")


def read_words(path: Path) -> list[Word]:
    """A list from a file: a word a line, or its category, a tab and the word; `#` begins a remark line."""
    try:
        return parse_words(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput("cannot be read", field=str(path), why=str(error), do="give a text file") from error


def parse_words(text: str, where: str) -> list[Word]:
    """The words of a list's text."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        category, tab, word = line.partition("\t")
        entry = Word(category.strip(), word.strip()) if tab else Word("own", line.strip())
        if not entry.word or not entry.category or len(entry.word) > LONGEST:
            raise BadInput(f"line {number} is no word: {line.strip()[:40]!r}", field=where)
        found.append(entry)
    return found


@cache
def _folds() -> U32:
    """What each character is compared as; those beyond the table share its last entry, which no word has."""
    table = characters().lower.copy()
    table[WIDE:WIDE_END] = table[np.arange(NARROW, NARROW + WIDE_END - WIDE)]
    table[FIRST : FIRST + len(simplified())] = simplified()
    return table


def fold(codes: U32) -> U32:
    """Characters as they are compared."""
    found: U32 = _folds()[np.minimum(codes, TABLE_SIZE - 1)]
    return found


@dataclass(frozen=True)
class Automaton:
    """The words as states: `slots` and `next` are the transitions, `fail` where to go without one.

    `pairs`: whether a word may begin with two characters, by their hash.  `word[s]`: the longest word that
    ends in state s, or -1; `shorter[s]`: the state of the next shorter one.
    """

    words: list[Word]
    slots: U64
    next: I32
    root: I32
    pairs: npt.NDArray[np.bool_]
    fail: I32
    word: I32
    shorter: I32
    length: I64
    borders: npt.NDArray[np.uint8]


def build(words: Iterable[Word]) -> Automaton:
    """The automaton of a list; a word given twice counts once, in its first category."""
    unique = {tuple(fold(codes_of(word.word)).tolist()): word for word in reversed(list(words))}
    spelt = sorted(unique)
    chosen = [unique[codes] for codes in spelt]
    edges: list[dict[int, int]] = [{}]
    ends = [-1]
    for number, codes in enumerate(spelt):
        state = 0
        for code in codes:
            if code not in edges[state]:
                edges[state][code] = len(edges)
                edges.append({})
                ends.append(-1)
            state = edges[state][code]
        ends[state] = number
    fail, shorter = _failures(edges, ends)
    keys = np.asarray([(s << 21) | c for s, row in enumerate(edges) for c in row], np.uint64)
    targets = np.asarray([target for row in edges for target in row.values()], np.int32)
    slots, following = _hashed(keys, targets)
    root = np.zeros(TABLE_SIZE, np.int32)
    for code, target in edges[0].items():
        if code < TABLE_SIZE:
            root[code] = target
    alphabet = [_is_alphabet(np.asarray(codes, np.uint32)) for codes in spelt]
    borders = [int(flags[0]) + 2 * int(flags[-1]) for flags in alphabet]
    return Automaton(
        chosen,
        slots,
        following,
        root,
        _pairs(spelt),
        np.asarray(fail, np.int32),
        np.asarray(ends, np.int32),
        np.asarray(shorter, np.int32),
        np.asarray([len(codes) for codes in spelt], np.int64),
        np.asarray(borders, np.uint8),
    )


def _pairs(spelt: list[tuple[int, ...]]) -> npt.NDArray[np.bool_]:
    found = np.zeros(PAIRS, bool)
    every = np.arange(TABLE_SIZE)
    for codes in spelt:
        second = every if len(codes) == 1 else codes[1]
        found[(codes[0] * PAIR + second) & (PAIRS - 1)] = True
    return found


def _failures(edges: list[dict[int, int]], ends: list[int]) -> tuple[list[int], list[int]]:
    """Breadth first: the state of the longest ending that begins another word; the next shorter word."""
    fail, shorter = [0] * len(edges), [0] * len(edges)
    queue = deque(edges[0].values())
    while queue:
        state = queue.popleft()
        for code, target in edges[state].items():
            queue.append(target)
            back = fail[state]
            while back and code not in edges[back]:
                back = fail[back]
            fail[target] = edges[back].get(code, 0)
            shorter[target] = fail[target] if ends[fail[target]] >= 0 else shorter[fail[target]]
    return fail, shorter


def _hashed(keys: U64, targets: I32) -> tuple[U64, I32]:
    size = 1 << max(4 * len(keys), 4).bit_length()
    slots, following = np.zeros(size, np.uint64), np.zeros(size, np.int32)
    for key, target in zip(keys.tolist(), targets.tolist(), strict=True):
        at = ((key * 0x9E3779B97F4A7C15) % (1 << 64) >> 32) & (size - 1)
        while slots[at]:
            at = (at + 1) & (size - 1)
        slots[at], following[at] = key + 1, target
    return slots, following


@cache
def _alphabet() -> npt.NDArray[np.bool_]:
    return _is_alphabet(np.arange(TABLE_SIZE, dtype=np.uint32))


def _is_alphabet(codes: U32) -> npt.NDArray[np.bool_]:
    """Letters and digits of scripts that put spaces between words."""
    bits = characters().bits[np.minimum(codes, TABLE_SIZE - 1)]
    found: npt.NDArray[np.bool_] = ((bits & (LETTER | DIGIT)) != 0) & ((bits & (HAN | KANA)) == 0)
    return found


def find(automaton: Automaton, units: Units) -> list[dict[Word, int]]:
    """How often each word is in each text; words inside words count too."""
    places, numbers = _search(
        units.codes,
        _folds(),
        _alphabet(),
        automaton.root[_folds()] != 0,
        automaton.pairs,
        automaton.slots,
        automaton.next,
        automaton.root,
        automaton.fail,
        automaton.word,
        automaton.shorter,
        automaton.length,
        automaton.borders,
    )
    found: list[dict[Word, int]] = [{} for _ in range(units.texts)]
    rows = np.searchsorted(units.text_start, places, side="right") - 1
    for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
        word = automaton.words[number]
        found[row][word] = found[row].get(word, 0) + 1
    return found


@njit(cache=True)
def _step(slots, following, root, state, code):  # type: ignore[no-untyped-def]
    """The next state, or -1."""
    if state == 0:
        return root[code]
    key = (np.uint64(state) << np.uint64(21)) | np.uint64(code)
    at = ((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & np.uint64(len(slots) - 1)
    while slots[at]:
        if slots[at] == key + np.uint64(1):
            return following[at]
        at = (at + np.uint64(1)) & np.uint64(len(slots) - 1)
    return np.int32(-1)


@njit(cache=True)
def _whole(codes, alphabet, first, last, border):  # type: ignore[no-untyped-def]
    """Whether no letter touches a word's ends where its own ends are letters."""
    beyond = np.uint32(len(alphabet) - 1)
    if border & 1 and first > 0 and alphabet[min(codes[first - 1], beyond)]:
        return False
    return not (border & 2 and alphabet[min(codes[last + 1], beyond)])


@njit(cache=True)
def _search(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    codes, folds, alphabet, first, pairs, slots, following, root, fail, word, shorter, length, borders
):  # fmt: skip
    places, numbers = [np.int64(0) for _ in range(0)], [np.int64(0) for _ in range(0)]
    state = np.int32(0)
    inside = False  # a word of an alphabet: none of the list begins in it
    beyond = np.uint32(len(folds) - 1)
    for place in range(len(codes)):
        code = min(codes[place], beyond)
        if state == 0:
            before, inside = inside, alphabet[code]
            if not first[code] or (before and inside):
                continue
            following_code = folds[min(codes[place + 1], beyond)] if place + 1 < len(codes) else beyond
            if not pairs[(folds[code] * PAIR + following_code) & (len(pairs) - 1)]:
                continue
            state = root[folds[code]]
        else:
            inside = alphabet[code]
            folded = folds[code]
            target = _step(slots, following, root, state, folded)
            while target < 0 and state:
                state = fail[state]
                target = _step(slots, following, root, state, folded)
            state = max(target, np.int32(0))
        at = state if word[state] >= 0 else shorter[state]
        while at:
            number = word[at]
            if _whole(codes, alphabet, place - length[number] + 1, place, borders[number]):
                places.append(np.int64(place))
                numbers.append(np.int64(number))
            at = shorter[at]
    return np.array(places, np.int64), np.array(numbers, np.int64)


def find_in_python(words: Sequence[Word], text: str) -> dict[Word, int]:
    """The same for one text by searching each word, to be read and compared with."""
    folded = fold(codes_of(text)).tolist()
    alphabet = _is_alphabet(codes_of(text)).tolist()
    found: dict[Word, int] = {}
    for word in words:
        codes = fold(codes_of(word.word)).tolist()
        flags = _is_alphabet(np.asarray(codes, np.uint32))
        for first in range(len(folded) - len(codes) + 1):
            end = first + len(codes)
            before = flags[0] and first > 0 and alphabet[first - 1]
            after = flags[-1] and end < len(alphabet) and alphabet[end]
            if folded[first:end] == codes and not before and not after:
                found[word] = found.get(word, 0) + 1
    return found
