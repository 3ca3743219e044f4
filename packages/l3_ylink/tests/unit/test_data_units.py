"""Units, n-grams and repetition: the vectorised code against plain Python, and values worked by hand."""

import os
import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink.datakit.quality import reference
from l3_ylink.datakit.quality.signals import measure
from l3_ylink.datakit.quality.units import split_units

SOAK = os.environ.get("OGAI_SOAK") == "1"
ALPHABET = "aB9_ .,\n'’中文字國语のカ한-#é\u0301😀"
TEXTS = st.lists(st.text(ALPHABET, max_size=60), min_size=1, max_size=6)
SINGLE = re.compile(r"[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\u3040-\u30ff]")


def plain_units(text: str) -> list[str]:
    """The same definition with a loop: letters, digits and marks in a row; CJK characters alone."""

    def is_word(character: str) -> bool:
        return unicodedata.category(character)[0] in "LNM" and not SINGLE.match(character)

    units, word = [], ""
    for place, character in enumerate(text):
        inner = (
            character in "'’"
            and 0 < place < len(text) - 1
            and is_word(text[place - 1])
            and is_word(text[place + 1])
        )
        if is_word(character) or inner:
            word += character
            continue
        units += [word] if word else []
        word = ""
        units += [character] if SINGLE.match(character) else []
    return units + ([word] if word else [])


def texts_of(texts: list[str]) -> list[list[str]]:
    units = split_units(texts)
    joined = "\n".join(texts) + "\n"
    words = [joined[start:end] for start, end in zip(units.start, units.end, strict=True)]
    return [
        words[first:last] for first, last in zip(units.first_unit[:-1], units.first_unit[1:], strict=True)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't stop.", ["Don't", "stop"]),
        ("it’s 'quoted'", ["it’s", "quoted"]),
        ("调试GPU驱动2次", ["调", "试", "GPU", "驱", "动", "2", "次"]),
        ("ログを見る", ["ロ", "グ", "を", "見", "る"]),
        ("한국어 단어", ["한국어", "단어"]),
        ("x_y-z", ["x", "y", "z"]),
        ("", []),
        ("…、。", []),
    ],
)
def test_words_and_hanzi_are_units(text: str, expected: list[str]) -> None:
    assert texts_of([text]) == [expected]


@settings(deadline=None)
@given(TEXTS)
def test_splitting_all_at_once_equals_a_loop_over_characters(texts: list[str]) -> None:
    assert texts_of(texts) == [plain_units(text) for text in texts]


@settings(deadline=None)
@given(TEXTS)
def test_a_text_has_the_same_hashes_alone_and_among_others(texts: list[str]) -> None:
    together = split_units(texts)
    for number, text in enumerate(texts):
        first, last = together.first_unit[number : number + 2]
        assert together.hash[first:last].tolist() == split_units([text]).hash.tolist()


@settings(deadline=None)
@given(TEXTS, st.integers(1, 6))
def test_equal_hashes_mean_equal_grams(texts: list[str], n: int) -> None:
    units = split_units(texts)
    hashes, first = units.grams(n)
    words = [word.lower() for some in texts_of(texts) for word in some]
    grams = [tuple(words[place : place + n]) for place in first.tolist()]
    assert len(set(zip(hashes.tolist(), grams, strict=True))) == len(set(hashes.tolist())) == len(set(grams))
    assert len(grams) == sum(max(0, len(some) - n + 1) for some in texts_of(texts))


LINES = st.lists(
    st.sampled_from(
        [
            "the ",
            "The ",
            "of ",
            "and",
            " a",
            "lorem ",
            "ipsum ",
            "- ",
            "• ",
            "...",
            "…",
            "#",
            "。",
            "字",
            "\n",
            "\n\n",
            "\r\n",
            "\u2028",
            "\x85",
            "\t",
            "a line that comes again.\n",
        ]
    ),
    max_size=50,
).map("".join)


@settings(deadline=None, max_examples=300 if SOAK else 60)
@given(st.lists(LINES | st.text(ALPHABET + "\n\r{}\ud800", max_size=60), min_size=1, max_size=4))
def test_the_compiled_loops_equal_their_definitions_in_plain_python(texts: list[str]) -> None:
    columns = measure(split_units(texts), texts)
    for number, text in enumerate(texts):
        expected = reference.measure(text) if text else {}
        found = {name: float(columns[name][number]) for name in expected}
        assert found == pytest.approx(expected, abs=1e-6)


GOLDEN = (
    "The cat and the dog.\n\nThe cat and the dog.\n- one two three four five six\n"
    "- one two three four five six\n中文中文中文。\n" + "to be or not to be, that is the question…\n" * 3
)


def test_golden_values_of_a_text() -> None:
    """Counted by hand: 5 + 5 + 6 + 6 words, 6 hanzi, 3 x 10 words; of nine lines four come again."""
    columns = {name: column[0] for name, column in measure(split_units([GOLDEN]), [GOLDEN]).items()}
    assert (columns["characters"], columns["units"], columns["lines"]) == (237, 58, 8)
    assert columns["repeated_lines"] == pytest.approx(4 / 9, abs=1e-6)
    assert columns["repeated_line_characters"] == pytest.approx((20 + 29 + 2 * 41) / len(GOLDEN), abs=1e-6)
    assert columns["stop_words"] == 5
    assert columns["top_2_gram"] == pytest.approx(5 * 6 / len(GOLDEN), abs=1e-6)


def test_signals_of_a_page_worked_by_hand() -> None:
    text = "# Start\n- one two\n- one two\n\nIt ends here...\nIt ends.\n"
    columns = {name: column[0] for name, column in measure(split_units([text]), [text]).items()}
    assert columns["lines"] == 5
    assert columns["bullet_lines"] == pytest.approx(2 / 6, abs=1e-6)  # an empty line is a line here
    assert columns["ellipsis_lines"] == pytest.approx(1 / 6, abs=1e-6)
    assert columns["ended_lines"] == pytest.approx(2 / 5)
    assert columns["repeated_lines"] == pytest.approx(1 / 6, abs=1e-6)
    assert columns["units"] == 10
    assert columns["hashes_per_unit"] == pytest.approx(1 / 10)
    assert columns["mean_word_length"] == pytest.approx(33 / 10)


def test_hashes_of_units_are_frozen() -> None:
    """Trained classifiers and the columns of earlier runs depend on these numbers."""
    units = split_units(["the 中 Don't"])
    assert units.hash.tolist() == [0x7FEA3D6BDD64059F, 0xE427560A5828228B, 0xD85188F67BBCFA6]
    assert units.exact.tolist() == [0x7FEA3D6BDD64059F, 0xE427560A5828228B, 0x2BFE046E3B4F1304]


def test_no_text_and_one_character_are_ordinary_inputs() -> None:
    texts = ["", "a", "。", "\ud800", "\x00"]
    columns = measure(split_units(texts), texts)
    assert columns["units"].tolist() == [0, 1, 0, 0, 0]
    assert all(np.isfinite(column.astype(float)).all() for column in columns.values())
