"""Words of a list: the automaton against plain search, borders, scripts and the shipped list."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.purify.sensitive import Word, build, find, find_in_python, read_words, shipped
from l3_ylink.datakit.quality.units import split_units


def found(text: str, *words: str) -> dict[str, int]:
    automaton = build([Word("own", word) for word in words])
    return {word.word: count for word, count in find(automaton, split_units([text]))[0].items()}


def test_words_are_found_in_any_case_width_and_script() -> None:
    assert found("Online CASINO and ｏｎｌｉｎｅ ｃａｓｉｎｏ", "online casino") == {"online casino": 2}
    assert found("網上賭場真人荷官", "网上赌场", "真人荷官") == {"网上赌场": 1, "真人荷官": 1}
    assert found("网上赌场", "網上賭場") == {"網上賭場": 1}


def test_words_of_an_alphabet_end_where_words_end() -> None:
    assert found("casino casinos 3casino 赌casino场 casino.", "casino") == {"casino": 3}
    assert found("北京六合彩票", "六合彩") == {"六合彩": 1}


def test_words_inside_words_count() -> None:
    assert found("ushers she", "he", "she", "his", "hers") == {"she": 1}  # borders
    assert found("甲乙丙丁", "乙", "乙丙", "甲乙丙", "丙丁") == {"乙": 1, "乙丙": 1, "甲乙丙": 1, "丙丁": 1}


WORDS = st.lists(st.text(alphabet="ab賭赌 .", min_size=1, max_size=4).filter(str.strip), max_size=6)


@settings(deadline=None)
@given(WORDS, st.lists(st.text(alphabet="aAbＡ賭赌 .\n\ud800", max_size=30), max_size=4))
def test_it_finds_what_plain_search_finds(words: list[str], texts: list[str]) -> None:
    automaton = build([Word("own", word) for word in words])
    expected = [find_in_python(automaton.words, text) for text in texts]
    assert find(automaton, split_units(texts))[: len(texts)] == expected


def test_the_shipped_list_is_small_and_each_word_finds_itself() -> None:
    words = shipped()
    assert {word.category for word in words} == {"gambling", "adult", "fraud", "drugs", "weapons"}
    assert 50 < len(words) < 200
    automaton = build(words)
    assert len(automaton.words) == len(words)
    for word, hits in zip(
        words, find(automaton, split_units([f"甲 {word.word} 乙" for word in words])), strict=True
    ):
        assert word in hits


def test_a_broken_list_is_named(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("# words\n一个词\nspam\tanother word\n")
    assert read_words(tmp_path / "list.txt") == [Word("own", "一个词"), Word("spam", "another word")]
    (tmp_path / "list.txt").write_text("fine\nspam\t\n")
    with pytest.raises(BadInput, match="line 2 is no word"):
        read_words(tmp_path / "list.txt")
