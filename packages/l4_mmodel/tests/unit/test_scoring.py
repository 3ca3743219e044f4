"""Extraction and judging, against stored verdicts and what a reader would say."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l4_mmodel.api import BadInput
from l4_mmodel.evaluation.scoring import (
    choice_letter,
    extract_gsm8k,
    extractor,
    judge,
    last_number,
    likeliest,
    normalise,
)

VERDICTS = Path(__file__).parent.parent / "data" / "gsm8k_verdicts.jsonl.gz"


def test_all_5276_stored_gsm8k_verdicts() -> None:
    agreed, right = 0, [0, 0, 0, 0]
    rows = [json.loads(line) for line in gzip.decompress(VERDICTS.read_bytes()).splitlines()]
    for truth, *answers in rows:
        expected = extract_gsm8k(truth)
        for model, (answer, verdict) in enumerate(answers):
            agreed += (extract_gsm8k(answer) == expected != "") == verdict
            right[model] += verdict
    assert agreed == 5276
    # As Cobbe et al. 2021 report for these four models.
    assert [round(100 * count / len(rows), 2) for count in right] == [21.68, 39.04, 34.72, 56.25]


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("The answer is (B).", "B"),
        ("answer: c", "C"),
        ("B", "B"),
        ("(D)", "D"),
        ("A. Paris", "A"),
        ("解：选 C", "C"),
        ("答案是：D", "D"),
        ("正确答案为A", "A"),
        ("I do not know", ""),
        ("", ""),
    ],
)
def test_the_letter_that_is_chosen(text: str, letter: str) -> None:
    assert choice_letter(text) == letter


@pytest.mark.parametrize(
    ("text", "number"), [("so 3 + 4 = 1,234.5!", "1234.5"), ("-7 degrees", "-7"), ("none", "")]
)
def test_the_last_number(text: str, number: str) -> None:
    assert last_number(text) == number


@pytest.mark.parametrize(
    ("score", "answer", "expected", "value"),
    [
        ("exact", "The Cat!", "cat", 1),
        ("exact", "ｃａｔ", "cat", 1),
        ("exact", "北京。", "北京", 1),
        ("exact", "dog", "cat", 0),
        ("number", "it is 3.0", "3", 1),
        ("number", "nothing", "3", 0),
        ("contains", "It is Paris, I think", "paris", 1),
        ("contains", "anything", "", 0),
        ("f1", "the quick fox", "quick brown fox", 0.8),
        ("f1", "北京市", "北京", 0.8),
        ("f1", "", "x", 0),
    ],
)
def test_how_right_an_answer_is(score: str, answer: str, expected: str, value: float) -> None:
    assert judge(score, answer, expected) == pytest.approx(value)


def test_a_long_choice_is_not_punished_when_normalised() -> None:
    logprobs = [[-2.0], [-1.0, -1.0, -1.0]]
    assert likeliest(logprobs) == 0
    assert likeliest(logprobs, [2, 12]) == 1


def test_an_extractor_may_be_a_regex() -> None:
    assert extractor(r"<a>(.*?)</a>")("x <a>42</a>") == "42"
    assert extractor(r"\d+")("no number") == ""
    with pytest.raises(BadInput, match="extract"):
        extractor("(")


@given(st.text())
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)
