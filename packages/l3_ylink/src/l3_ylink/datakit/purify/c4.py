"""Which lines of a text C4 would not keep (Raffel et al. 2020, appendix A; as datatrove's filter reads it).

A line stays if it ends like a sentence, has some words, no word of absurd length, does not ask for
JavaScript and says nothing about cookies or terms.  In Chinese a character is a word, and lines end in
Chinese marks.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, get_args

Reason = Literal["long_word", "no_end_mark", "few_words", "javascript", "policy"]
REASONS: tuple[Reason, ...] = get_args(Reason)

LINE = re.compile(r"[^\n]+\n?")
CITATION = re.compile(r"\[\d*\]|\[edit\]|\[citation needed\]")
END_MARKS = (".", "?", "!", '"', "'", "。", "？", "！", "”", "’", "」", "』", "；", "……")
HAN = re.compile("[\u3400-\u9fff]")
ENDS = re.compile("[.!?]+(?=[\\s\"'”’)\\]]|$)|[。！？…]+")
POLICY = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")


class Judged(NamedTuple):
    """The lines to take out (start, end, place of the reason in `REASONS`), and sentences in the others."""

    cuts: list[tuple[int, int, int]]
    sentences: int


def judge(text: str, least_words: int, longest_word: int) -> Judged:
    """Judges every line of a text that has something on it."""
    cuts = []
    sentences = 0
    for match in LINE.finditer(text):
        line = match.group().strip()
        if not line:
            continue
        reason = why_not(line, least_words, longest_word)
        if reason is None:
            sentences += max(1, len(ENDS.findall(line)))
        else:
            cuts.append((match.start(), match.end(), REASONS.index(reason)))
    return Judged(cuts, sentences)


def why_not(line: str, least_words: int, longest_word: int) -> Reason | None:
    """Why a line does not stay; None if it does."""
    words = line.split()
    if len(line) > longest_word and any(len(word) > longest_word and not HAN.search(word) for word in words):
        return "long_word"
    end = CITATION.sub("", line) if "[" in line else line
    if not end.endswith(END_MARKS) or end.endswith("..."):
        return "no_end_mark"
    if len(words) < least_words and len(words) - 1 + len(HAN.findall(line)) < least_words:
        return "few_words"
    lower = line.lower()
    if "javascript" in lower:
        return "javascript"
    return "policy" if any(phrase in lower for phrase in POLICY) else None
