"""Judging answers: which choice the model finds likeliest, and what a generated text says.  Pure."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from l4_mmodel._kit.problems import BadInput

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?|-?\.\d+")
GSM8K = re.compile(r"^(?:####|A:)\s*(-?[\d.,]+)", re.MULTILINE)
LETTER = re.compile(
    r"(?:answer\s*(?:is|:)|答案\s*(?:是|为)?[：:]?|选)\s*\(?([A-Z])\)?|^\s*\(?([A-Z])\)?\s*(?:[.．、:：)]|$)",
    re.IGNORECASE | re.MULTILINE,
)
HARNESS_NUMBER = r"#### (\-?[0-9\.\,]+)"
ARTICLES = re.compile(r"\b(a|an|the)\b")


def likeliest(logprobs: Sequence[Sequence[float]], lengths: Sequence[int] | None = None) -> int:
    """The index of the choice with the highest sum of log-probabilities, per length where given.

    With the lengths of the choices in characters this is lm-eval's `acc_norm`, without its `acc`.
    """
    sums = [sum(choice) for choice in logprobs]
    if lengths is not None:
        sums = [total / max(1, length) for total, length in zip(sums, lengths, strict=True)]
    return max(range(len(sums)), key=sums.__getitem__)


def normalise(text: str) -> str:
    """Text for comparison: compatibility forms, case, articles, punctuation and spaces ignored."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    plain = "".join(" " if unicodedata.category(letter)[0] in "PZC" else letter for letter in folded)
    return " ".join(ARTICLES.sub(" ", plain).split())


def extract_gsm8k(text: str) -> str:
    """The number of the last line that begins with `####` or `A:`; empty when there is none."""
    found = GSM8K.findall(text)
    return found[-1].replace(",", "") if found else ""


def last_number(text: str) -> str:
    """The last number of a text; empty when there is none."""
    found = NUMBER.findall(text)
    return found[-1].replace(",", "") if found else ""


def choice_letter(text: str) -> str:
    """The letter that a text chooses; empty when there is none."""
    found = LETTER.search(text)
    return (found.group(1) or found.group(2)).upper() if found else ""


def extractor(name: str) -> Callable[[str], str]:
    """The function that takes the answer out of a generated text; any other name is a regex."""
    known: dict[str, Callable[[str], str]] = {
        "text": str.strip,
        "gsm8k": extract_gsm8k,
        "last_number": last_number,
        "choice_letter": choice_letter,
    }
    if name in known:
        return known[name]
    try:
        pattern = re.compile(name, re.MULTILINE)
    except re.error as error:
        raise BadInput(
            f"{name!r} is neither an extractor nor a regular expression: {error}", field="extract"
        ) from error

    def by_pattern(text: str) -> str:
        found = pattern.search(text)
        return "" if found is None else (found.group(1) if pattern.groups else found.group(0)) or ""

    return by_pattern


def same_number(answer: str, expected: str) -> bool:
    """Whether two texts hold the same number."""
    try:
        return Decimal(last_number(answer)) == Decimal(last_number(expected))
    except InvalidOperation:
        return False


def overlap(answer: str, expected: str) -> float:
    """The F1 of shared words; for Chinese, of characters."""
    ours, theirs = (Counter(_words(text)) for text in (answer, expected))
    shared = sum((ours & theirs).values())
    if not shared:
        return float(not ours and not theirs)
    precision, recall = shared / sum(ours.values()), shared / sum(theirs.values())
    return 2 * precision * recall / (precision + recall)


def _words(text: str) -> list[str]:
    return re.findall(r"[\u3400-\u9fff]|[^\s\u3400-\u9fff]+", normalise(text))


def judge(score: str, answer: str, expected: str) -> float:
    """How right an extracted answer is, from 0 to 1, by the task's way to score."""
    if score == "number":
        return float(same_number(answer, expected))
    if score == "contains":
        return float(bool(normalise(expected)) and normalise(expected) in normalise(answer))
    if score == "f1":
        return overlap(answer, expected)
    return float(normalise(answer) == normalise(expected))


def filtered(text: str, filters: Sequence[Mapping[str, Any]]) -> str:
    """An answer after the harness's filters: regex (the match chosen by group_select), spaces, case."""
    for step in filters:
        if step["function"] == "regex":
            text = _matched(
                text, str(step.get("regex_pattern", HARNESS_NUMBER)), int(step.get("group_select", 0)),
                str(step.get("fallback", "[invalid]")),
            )  # fmt: skip
        elif step["function"] == "remove_whitespace":
            text = text.lstrip()
        else:
            text = text.lower()
    return text


def _matched(text: str, pattern: str, which: int, fallback: str) -> str:
    found = re.findall(pattern, text)
    if not found:
        return fallback
    match = found[which]
    if isinstance(match, tuple):
        match = next((group for group in match if group), fallback)
    return str(match).strip()


def exact_match(
    answer: str,
    expected: str,
    *,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
    regexes_to_ignore: Sequence[str] = (),
) -> float:
    """Whether two texts are the same, as the harness's metric of this name counts it."""
    pair = [answer, expected]
    for pattern in regexes_to_ignore:
        pair = [re.sub(pattern, "", text) for text in pair]
    if ignore_case:
        pair = [text.lower() for text in pair]
    dropped = string.punctuation * ignore_punctuation + string.digits * ignore_numbers
    ours, theirs = (text.translate(str.maketrans("", "", dropped)) for text in pair)
    return float(ours == theirs)
