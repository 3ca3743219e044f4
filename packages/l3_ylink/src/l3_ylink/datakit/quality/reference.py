"""What the compiled loops compute, in plain Python and one text at a time: the definitions, not for speed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from .characters import DIGIT, HAN, KANA, LETTER, MARK, TABLE_SIZE, characters
from .classes import BULLET, TERMINAL, WHITE, classes
from .signals import STOP_WORDS


class Word(NamedTuple):
    """A unit: as written, in lower case, and whether it has a letter."""

    text: str
    lower: str
    alpha: bool


def _is(character: str, flag: int) -> bool:
    known = classes()
    return bool(known.bits[known.kind[min(ord(character), TABLE_SIZE - 1)]] & flag)


def _small(character: str) -> str:
    code = ord(character)
    return chr(int(characters().lower[code])) if code < TABLE_SIZE else character


def split(text: str) -> list[Word]:
    """The units of a text: Chinese and Japanese characters alone, other letters, digits and marks in runs."""
    bits = characters().bits
    kinds = [int(bits[min(ord(character), TABLE_SIZE - 1)]) for character in text]
    single = [bool(kind & (HAN | KANA)) for kind in kinds]
    word = [
        bool(kind & (LETTER | DIGIT | MARK)) and not alone for kind, alone in zip(kinds, single, strict=True)
    ]
    inner = [
        text[i] in "'’" and 0 < i < len(text) - 1 and word[i - 1] and word[i + 1] for i in range(len(text))
    ]
    found: list[str] = []
    open_word = False
    for i, character in enumerate(text):
        if single[i]:
            found.append(character)
        elif word[i] or inner[i]:
            if open_word:
                found[-1] += character
            else:
                found.append(character)
        open_word = word[i] or inner[i]
    return [
        Word(unit, "".join(map(_small, unit)), any(bits[min(ord(c), TABLE_SIZE - 1)] & LETTER for c in unit))
        for unit in found
    ]


def again(items: Sequence[str]) -> tuple[int, int]:
    """How many items were there before, and their characters."""
    seen: set[str] = set()
    count = size = 0
    for item in items:
        if item in seen:
            count, size = count + 1, size + len(item)
        seen.add(item)
    return count, size


def top_gram(words: Sequence[str], n: int) -> int:
    """Length of the commonest n-gram, joined by spaces, times its count."""
    grams = Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
    if len(words) < 2 or not grams:
        return 0
    gram, count = grams.most_common(1)[0]
    return len(" ".join(gram)) * count


def repeated_grams(words: Sequence[str], n: int) -> int:
    """Characters of n-grams seen before, reading on after each of them."""
    seen: set[tuple[str, ...]] = set()
    place = size = 0
    while place <= len(words) - n:
        gram = tuple(words[place : place + n])
        if gram in seen:
            size += sum(map(len, gram))
            place += n
        else:
            seen.add(gram)
            place += 1
    return size


def _strip(text: str) -> str:
    return text.strip("".join(_white()))


def _white() -> Iterator[str]:
    known = classes()
    return (chr(code) for code in range(0x3001) if known.bits[known.kind[code]] & WHITE)


def measure(text: str) -> dict[str, float]:
    """The signals of lines, paragraphs, words and repetition of a text that is not empty."""
    words = split(text)
    written = [word.text for word in words]
    runs = re.split("\n+", text)
    paragraphs = re.split("\n{2,}", _strip(text))
    filled = [line for line in text.split("\n") if _strip(line)]
    broken = text.splitlines()
    count = len(words)

    def part(number: float, whole: int) -> float:
        return round(number / whole, 6) if whole else 0.0

    values: dict[str, float] = {
        "units": count,
        "mean_word_length": part(sum(map(len, written)), count),
        "alpha_units": part(sum(word.alpha for word in words), count),
        "stop_words": len(set(written) & set(STOP_WORDS)),
        "hashes_per_unit": part(text.count("#"), count),
        "lorem_ipsum": int(
            any(one.lower == "lorem" and two.lower == "ipsum" for one, two in pairwise(words))
        ),
        "lines": len(filled),
        "short_lines": part(sum(len(line) <= 30 for line in filled), len(filled)),
        "ended_lines": part(sum(_is(line[-1], TERMINAL) for line in filled), len(filled)),
        "line_characters_again": part(again(filled)[1], len(text.replace("\n", ""))),
        "bullet_lines": part(
            sum(bool(_strip(line)) and _is(_strip(line)[0], BULLET) for line in broken), len(broken)
        ),
        "ellipsis_lines": part(sum(_strip(line).endswith(("...", "…")) for line in broken), len(broken)),
        "ellipses_per_unit": part(text.count("...") + text.count("…"), count),
        "repeated_lines": part(again(runs)[0], len(runs)),
        "repeated_line_characters": part(again(runs)[1], len(text)),
        "repeated_paragraphs": part(again(paragraphs)[0], len(paragraphs)),
        "repeated_paragraph_characters": part(again(paragraphs)[1], len(text)),
        "newlines_per_unit": part(text.count("\n"), count),
    }
    values |= {f"top_{n}_gram": part(top_gram(written, n), len(text)) for n in (2, 3, 4)}
    values |= {f"repeated_{n}_grams": part(repeated_grams(written, n), len(text)) for n in range(5, 11)}
    return values
