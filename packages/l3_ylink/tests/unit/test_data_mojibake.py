"""Chinese that was read in a wrong way comes back; what was right is not touched."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink.datakit.purify.chinese import OTHER, chinese
from l3_ylink.datakit.purify.mojibake import repair
from l3_ylink.datakit.purify.pinyin import strip

CLEAN = [
    "系统启动失败的时候，请先查看日志文件，然后再检查网络设置。",
    "这个选项的默认值是开，用户可以在设置里更改语言。",
    "因为每一层都是独立的，所以可以单独升级其中的任何一层。",
    "安装程序会自动检测硬件，并且下载需要的软件包。",
    "編輯器會自動儲存檔案，使用者不需要另外設定。",
    "資料庫的備份應該每天進行一次，並且定期檢查是否可以還原。",
    "春江潮水连海平，海上明月共潮生。",
    "滚滚长江东逝水，浪花淘尽英雄。是非成败转头空。",
    "落霞與孤鶩齊飛，秋水共長天一色。",
    "燚龘靐齉爩",
    "用 apt-get(8) 安装 mc 和 vim；配置在 /etc/apt/sources.list。",
    "重音字母被像“Ã©”或“Ã¨”这样的字符取代，说明编码不对。",
    "naïve café, déjà vu, Ærøskøbing",
    "ログファイルを確認してください。",
    "是吗？(ma) 好的?ok) 行(a)",
]


def windows(data: bytes) -> str:
    """GBK as Windows reads it: two bytes that are no character become one question mark."""
    parts, place = [], 0
    while place < len(data):
        if data[place] == 0x80:
            parts.append("€")
            place += 1
            continue
        step = 2 if data[place] >= 0x81 else 1
        try:
            parts.append(data[place : place + step].decode("gbk"))
        except UnicodeDecodeError:
            parts.append("?")
        place += step
    return "".join(parts)


def broken(text: str, place: int, pinyin: str) -> str:
    """Pinyin put into the character at a place, as a converter that works on bytes does."""
    data = text.encode("gbk")
    cut = len(text[:place].encode("gbk")) + 1
    return windows(data[:cut] + f"({pinyin})".encode("gbk") + data[cut:])


@pytest.mark.parametrize("text", CLEAN)
def test_clean_text_is_returned_as_it_is(text: str) -> None:
    assert repair(text) == (text, 0, 0)


@given(st.lists(st.sampled_from(CLEAN), min_size=1, max_size=8), st.sampled_from(["\n", "\n\n", " ", ""]))
@settings(max_examples=30, deadline=None)
def test_no_mixture_of_clean_lines_is_touched(lines: list[str], joiner: str) -> None:
    text = joiner.join(lines)
    assert repair(text).text == text


@pytest.mark.parametrize("line", [CLEAN[0], *CLEAN[2:6]])
def test_utf_8_read_as_gbk_comes_back_even_where_the_last_byte_was_lost(line: str) -> None:
    wrong = line.encode().decode("gb18030", "replace")
    assert wrong != line
    assert repair(f"first\n{wrong}\nlast") == (f"first\n{line}\nlast", 1, 0)


def test_a_mark_that_stands_for_two_bytes_is_no_obstacle() -> None:
    wrong = windows("用户可以在设置里更改语言。".encode())
    assert wrong.startswith("鐢ㄦ埛鍙?互")
    assert repair(wrong).text.startswith("用户可以在设置里")


@pytest.mark.parametrize("line", [*CLEAN[:6], CLEAN[7]])
def test_gbk_read_as_latin_1_comes_back(line: str) -> None:
    assert repair(line.encode("gbk").decode("latin-1")).text == line


def test_a_byte_of_gbk_lost_shifts_the_rest_of_the_line_and_comes_back() -> None:
    around = "这里是前面的一行文字，没有问题。"
    line = "我们每一个人都是独立的。"
    data = line.encode("gbk")
    late = windows(data[:5] + data[6:])
    assert late[2:] not in line
    assert repair(f"{around}\n{late}").text == f"{around}\n{line}"


def test_pinyin_that_broke_a_character_tells_which_one() -> None:
    line = "因為每一層都是分層解耦的"
    assert "因為".encode("gbk")[1:3].decode("gbk") == "驗"
    wrong = broken(line, 1, "yàn")
    assert wrong == "因?yàn)槊恳粚佣际欠謱咏怦畹?"
    assert repair(wrong).text == line


def test_annotations_of_converted_characters_go_and_glosses_stay() -> None:
    left_behind = "中國(guó)的電(diàn)腦(nǎo)軟體開發(fā)"
    assert repair(left_behind) == ("中國的電腦軟體開發", 0, 4)
    for text in (
        "胥（xū）是一个姓",
        "行(xíng)，乐(lè)，都(dū)是多音字",
        "國(guó)字只出現一次",
        "函式 時(a) 對(b) 與(c)",
        "國(wrong)電(no)腦(none)",
    ):
        assert repair(text).text == text
    assert strip("行(xíng)乐(lè)都(dū)", "all") == ("行乐都", 3)
    assert strip(left_behind, "off") == (left_behind, 0)


@given(st.sampled_from(CLEAN[:6]), st.integers(0, 40), st.sampled_from(["late", "utf-8", "latin"]))
@settings(max_examples=20, deadline=None)
def test_repairing_twice_changes_nothing_more(line: str, place: int, how: str) -> None:
    data = line.encode("gbk")
    wrong = {
        "late": windows(data[: place % len(data)] + data[place % len(data) + 1 :]),
        "utf-8": windows(line.encode()),
        "latin": data.decode("latin-1"),
    }[how]
    once = repair(wrong).text
    assert repair(once).text == once


@given(st.text(max_size=300))
@settings(deadline=None)
def test_any_text_is_taken(text: str) -> None:
    assert isinstance(repair(text).text, str)


def test_the_probabilities_of_all_that_can_follow_sum_to_one() -> None:
    model = chinese()
    every = np.arange(model.size)
    for before, last in (("系", "统"), ("我", "们"), ("，", "但"), ("龘", "齉")):
        context = model.symbols(np.asarray([ord(before), ord(last)], np.uint32))
        one, two = (np.full(model.size, symbol) for symbol in context.tolist())
        total = np.exp(model.after(one, two, every) + model.spread[every]).sum()
        assert total == pytest.approx(1, abs=0.12), (before, last)  # logarithms are kept in tenths


def test_likely_text_is_likelier_than_misread_text() -> None:
    model = chinese()
    for line in CLEAN[:4]:
        assert model.score(line) / len(line) > -8
        assert model.score(windows(line.encode("gbk")[1:])) / len(line) < -10
    assert model.symbols(np.asarray([0x1F600], np.uint32)).tolist() != [OTHER]
