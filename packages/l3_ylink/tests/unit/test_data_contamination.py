"""Contamination: runs of words and of characters shared with evaluation items."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.purify.contamination import build_index, find_hits, read_items
from l3_ylink.datakit.quality.units import split_units

ENGLISH = (
    "a train leaves the station at nine and travels at sixty miles an hour toward the city which is "
    "one hundred and eighty miles away when does it arrive"
)
CHINESE = "一列火车上午九点从车站出发以每小时六十公里的速度驶向一百八十公里外的城市几点到达"


def hits(
    texts: list[str], items: list[tuple[str, str]], words: int = 13, characters: int = 16
) -> list[list[str]]:
    index = build_index(items, words, characters)
    return [[index.items[item] for item in sorted(hit.runs)] for hit in find_hits(split_units(texts), index)]


def test_a_run_of_thirteen_words_is_found_in_other_case_and_punctuation() -> None:
    quoted = "Exercise: A train leaves the station, at nine, and travels at SIXTY miles an hour!"
    shorter = "Exercise: a train leaves the station at nine and travels at sixty knots"
    assert hits([quoted, shorter], [("math/1", ENGLISH)]) == [["math/1"], []]


def test_chinese_is_compared_by_characters_over_punctuation_and_lines() -> None:
    quoted = "题目：一列火车上午九点，从车站出发，以每小时\n六十公里的速度驶向海边。"
    shorter = "一列火车上午九点从车站出发到山里去"
    assert hits([quoted, shorter], [("数学/1", CHINESE)]) == [["数学/1"], []]


def test_an_item_shorter_than_the_run_is_compared_whole() -> None:
    item = "GPU has fallen off the bus"
    assert hits(["alert: the GPU has fallen off the bus again", "GPU has fallen off"], [("t/1", item)]) == [
        ["t/1"],
        [],
    ]


def test_an_item_that_says_nothing_is_counted_not_compared() -> None:
    index = build_index([("t/1", "two words"), ("t/2", "短题")], 13, 16)
    assert (index.too_short, index.runs) == (2, {})


def test_items_that_share_a_run_are_all_named() -> None:
    assert hits([ENGLISH], [("a/1", ENGLISH), ("b/2", "Also: " + ENGLISH)]) == [["a/1", "b/2"]]


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("{broken", "line 1 is not JSON"),
        ("[1]", "line 1 is not an object"),
        ('{"id": 1}', "has none of question"),
    ],
)
def test_a_broken_evaluation_set_is_named(tmp_path: Path, content: str, part: str) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text(content)
    with pytest.raises(BadInput, match=part):
        read_items(path, "set", ["question"])


def test_items_are_named_by_their_id_or_line(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text(json.dumps({"id": "x", "question": "q"}) + "\n\n" + json.dumps({"question": "r"}) + "\n")
    assert read_items(path, "set", ["question"]) == [("set/x", "q"), ("set/3", "r")]


def test_traditional_and_simplified_characters_are_one() -> None:
    quoted = "題目：一列火車上午九點從車站出發，以每小時六十公里的速度駛向海邊。"
    assert hits([quoted], [("数学/1", CHINESE)]) == [["数学/1"]]
    traditional = "一列火車上午九點從車站出發以每小時六十公里的速度駛向一百八十公里外的城市幾點到達"
    assert hits([CHINESE], [("數學/1", traditional)]) == [["數學/1"]]


def test_what_is_shared_is_counted_once_a_run() -> None:
    index = build_index([("math/1", ENGLISH)], 13, 16)
    found = find_hits(split_units([f"{ENGLISH} {ENGLISH}", "nothing of it", ""]), index)
    assert [len(hit.runs.get(0, ())) for hit in found] == [len(ENGLISH.split()) - 12, 0, 0]
    assert index.runs_of_item == [len(ENGLISH.split()) - 12]


WORDS = st.lists(st.sampled_from(["a", "b", "天", "B"]), max_size=40)


@settings(deadline=None)
@given(st.lists(WORDS, max_size=4), st.lists(WORDS, max_size=3))
def test_hits_are_those_of_sets_of_runs(texts: list[list[str]], items: list[list[str]]) -> None:
    """Expectation by plain sets, as datatrove's n-gram filter counts: words in lower case, no marks."""
    named = [(f"set/{number}", " ".join(item)) for number, item in enumerate(items)]
    found = hits([" ".join(text) for text in texts], named, words=8, characters=12)
    for text, names in zip(texts, found, strict=True):
        expected = []
        for (name, _), item in zip(named, items, strict=True):
            chinese = 2 * item.count("天") > len(item)
            n = min(12 if chinese else 8, len(item))
            if n < (10 if chinese else 6):
                continue
            runs = [
                {tuple(map(str.lower, row[at : at + n])) for at in range(len(row) - n + 1)}
                for row in (text, item)
            ]
            if runs[0] & runs[1]:
                expected.append(name)
        assert names == expected


def test_gzip_lists_and_other_names_of_items_are_read(tmp_path: Path) -> None:
    rows = [{"task_id": "HumanEval/0", "prompt": "def f():", "choices": ["a", "b"]}]
    path = tmp_path / "items.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(rows[0]).encode()))
    assert read_items(path, "code", ["prompt", "choices"]) == [("code/HumanEval/0", "def f():\na\nb")]
