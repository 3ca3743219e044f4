"""Which Chinese a text is in, and the one as the other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l3_ylink.datakit.purify.convert import convert
from l3_ylink.datakit.purify.scripts import label_text
from l3_ylink.datakit.purify.unicode import normalise, survey

HANS = "软件会自动检测硬件，用户可以在设置里更改语言。"
HANT = "軟體會自動檢測硬體，使用者可以在設定裡更改語言。"
YUE = "佢哋喺度食咗飯，跟住嘅嘢我唔知，你同佢講啦。"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (HANS, "zh-Hans"),
        (HANT, "zh-Hant"),
        (YUE, "yue"),
        (HANS + "\n" + HANT, "zh-mixed"),
        ("山高月小，水落石出。", "zh-Hans"),
        ("ログファイルを確認してください。", None),
        ("English only", None),
        ("", None),
        ("他喺北京工作，" + HANS, "zh-Hans"),
    ],
)
def test_the_script_is_told_from_characters_that_only_one_has(text: str, label: str | None) -> None:
    assert label_text(text) == label


def test_conversion_by_characters_and_by_words_of_the_region() -> None:
    pytest.importorskip("opencc")
    assert convert("鼠标里的软件", "zh-Hant") == "鼠標裏的軟件"
    assert convert("鼠标里的软件", "zh-TW", phrases=True) == "滑鼠裡的軟體"
    assert convert("滑鼠裡的軟體", "zh-Hans", phrases=True) == "鼠标里的软件"
    assert convert("头发发展", "zh-Hant") == "頭髮發展"


def test_what_is_not_chinese_or_is_so_already_stays() -> None:
    pytest.importorskip("opencc")
    for text in ("ログファイルを確認してください。", "plain", ""):
        assert convert(text, "zh-Hans") == text
    once = convert(HANT + HANS, "zh-Hans")
    assert label_text(once) == "zh-Hans"
    assert convert(once, "zh-Hans") == once


def test_nfkc_makes_compatibility_characters_plain_and_nfc_leaves_them() -> None:
    assert normalise("①㎏ﬁ", form="NFKC") == "1kgfi"
    assert normalise("①㎏ﬁ") == "①㎏ﬁ"


@given(st.text(max_size=100))
def test_nfkc_twice_changes_nothing_more(text: str) -> None:
    once = normalise(text, form="NFKC")
    assert normalise(once, form="NFKC") == once


def test_what_nobody_sees_is_counted() -> None:
    assert survey("a\x00b\u200bc\ue001d\ufeff") == (1, 2, 1)
    assert survey("plain\n\ttext") == (0, 0, 0)
