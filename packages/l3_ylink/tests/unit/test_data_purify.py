"""The Unicode policy, repair of mojibake, and languages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l3_ylink.datakit.purify.language import identify
from l3_ylink.datakit.purify.mojibake import repair
from l3_ylink.datakit.purify.unicode import normalise
from l3_ylink.datakit.quality.units import split_units

POEM = "《登鹳雀楼》\n作者：王之涣\n白日依山尽，黄河入海流。\n欲穷千里目，更上一层楼。"
TECHNICAL = "用 apt-get(8) 安装软件包，例如 mc 和 vim；配置文件在 /etc/apt/sources.list。"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x1b[32m《送别》\x1b[m", "《送别》"),
        ("zero\u200bwidth\ufeff\u2060", "zerowidth"),
        ("e\u0301", "é"),
        ("ＧＰＵ８卡", "GPU8卡"),
        ("，。！", "，。！"),
        ("全\u3000角 \xa0 空", "全 角   空"),
        ("tail   \n\n\n\n\nnext", "tail\n\nnext"),
        ("\u202edrow\u202c", "drow"),
        ("N\x08NA\x08A\x08AM\x08ME\x08E", "NAME"),
        ("क\u094d\u200dष", "क\u094d\u200dष"),
        ("\ud800x", "x"),
    ],
)
def test_the_unicode_policy(text: str, expected: str) -> None:
    assert normalise(text) == expected


@given(st.text(max_size=200))
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once


@pytest.mark.parametrize(
    ("right", "mechanism"),
    [
        ("don’t – it’s €5", "cp1252"),
        ("naïve café, déjà vu", "latin-1"),
        ("调试程序时，请先查看日志", "gb18030"),
        ("你好，世界，服务器启动了", "gbk"),
    ],
)
def test_utf_8_read_in_another_encoding_is_restored(right: str, mechanism: str) -> None:
    wrong = right.encode().decode(mechanism, "ignore")
    assert wrong != right
    assert repair(f"first line\n{wrong}\nlast line")[:2] == (f"first line\n{right}\nlast line", 1)


@pytest.mark.parametrize(
    "text",
    [POEM, TECHNICAL, "naïve café", "Ã is a letter", "prix: 5 €", "燚龘靐齉爩", "ÄÖÜ äöü ß", "10 µm ± 2 °C"],
)
def test_what_is_right_is_not_touched(text: str) -> None:
    assert repair(text) == (text, 0, 0)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (POEM, "zh-Hans"),
        (TECHNICAL, "zh-Hans"),
        ("偵錯程式時，請先檢視記錄檔。系統啟動失敗。", "zh-Hant"),
        ("ログファイルを確認してください。", "ja"),
        ("로그 파일을 확인하십시오.", "ko"),
        ("The quick brown fox jumps over the lazy dog and runs into the forest again.", "en"),
        ("Le système ne démarre plus, vérifiez le journal des événements avant de continuer.", "fr"),
        ("Система не запускается, проверьте журнал событий.", "ru"),
        ("12 34 56", "und"),
        ("", "und"),
    ],
)
def test_languages_by_script_and_model(text: str, language: str) -> None:
    assert identify(split_units([text]), [text])[0] == [language]


def test_two_stop_words_do_not_make_a_text_english() -> None:
    text = (
        "To be or not: être ou ne pas être, telle est la question, pour la suite du monde et des autres. " * 3
    )
    assert identify(split_units([text]), [text])[0] == ["fr"]


def test_a_page_mostly_in_english_with_some_hanzi_is_not_chinese() -> None:
    text = (
        "第 8 章 " + "The network is configured in this file, and the service reads it when it starts. " * 6
    )
    assert identify(split_units([text]), [text])[0] == ["en"]
