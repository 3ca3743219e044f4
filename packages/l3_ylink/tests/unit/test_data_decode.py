"""Which encoding a file is in: real sentences in the encodings of their countries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l3_ylink.datakit.fileqa.decode import decode

SIMPLIFIED = "调试程序时，请先查看日志文件。系统启动失败的原因很多，需要逐一排除。"
TRADITIONAL = "偵錯程式時，請先檢視記錄檔。系統啟動失敗的原因很多，需要逐一排除。"
JAPANESE = "ログファイルを確認してください。システムの起動に失敗しました。"
KOREAN = "로그 파일을 확인하십시오. 시스템을 시작하지 못했습니다."
FRENCH = "Le café est très agréable, où tout le monde déjeune à midi."
RUSSIAN = "Система не запускается, проверьте журнал событий и повторите попытку ещё раз."


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (SIMPLIFIED, "gb18030"),
        (SIMPLIFIED, "gbk"),
        (SIMPLIFIED, "utf-16"),
        (TRADITIONAL, "big5"),
        (JAPANESE, "shift_jis"),
        (JAPANESE, "euc_jp"),
        (KOREAN, "euc_kr"),
        (FRENCH, "cp1252"),
        (FRENCH, "iso-8859-1"),
        (RUSSIAN, "cp1251"),
        ("plain words in UTF-16 without a mark", "utf-16-le"),
        ("plain words in UTF-16 without a mark", "utf-16-be"),
        (SIMPLIFIED, "utf-8-sig"),
        (SIMPLIFIED, "utf-32"),
    ],
)
def test_the_text_comes_back(text: str, encoding: str) -> None:
    found = decode(text.encode(encoding))
    assert (found.text, found.undecodable) == (text, 0)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=200))
def test_valid_utf_8_is_read_as_utf_8(text: str) -> None:
    if not text.startswith("\ufeff"):
        assert decode(text.encode()) == (text, "utf-8", 0)


@given(st.binary(max_size=300))
def test_any_bytes_give_a_text(data: bytes) -> None:
    assert isinstance(decode(data).text, str)


def test_a_few_broken_bytes_do_not_make_utf_8_another_encoding() -> None:
    data = bytearray((SIMPLIFIED * 20).encode())
    data[100] = 0xFF
    found = decode(bytes(data))
    assert found.encoding == "utf-8"
    assert 1 <= found.undecodable <= 3
    assert "请先查看日志文件" in found.text


def test_a_page_that_declares_a_wrong_encoding_is_not_believed() -> None:
    assert decode(TRADITIONAL.encode("big5"), "ascii").text == TRADITIONAL
    assert decode(SIMPLIFIED.encode("gb18030"), "gb2312").text == SIMPLIFIED
    assert decode(SIMPLIFIED.encode("gb18030"), "no-such-encoding").text == SIMPLIFIED


@pytest.mark.parametrize("encoding", ["gb18030", "big5", "shift_jis", "euc_kr"])
def test_lines_in_two_encodings_are_each_read_in_their_own(encoding: str) -> None:
    other = {"gb18030": SIMPLIFIED, "big5": TRADITIONAL, "shift_jis": JAPANESE, "euc_kr": KOREAN}[encoding]
    lines = [FRENCH.encode(), SIMPLIFIED.encode(), b"plain", other.encode(encoding), TRADITIONAL.encode()]
    found = decode(b"\n".join(lines))
    assert found.text.split("\n") == [FRENCH, SIMPLIFIED, "plain", other, TRADITIONAL]
    assert found.encoding.startswith("utf-8+")
    assert found.undecodable == 0


@pytest.mark.parametrize(("text", "encoding"), [(JAPANESE, "iso2022_jp"), (KOREAN, "iso2022_kr")])
def test_encodings_of_seven_bits_are_told_by_their_escapes(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)).text == text


def test_one_broken_line_of_utf_8_is_damage_and_no_second_encoding() -> None:
    broken = SIMPLIFIED.encode()[:40] + b"\xff" + SIMPLIFIED.encode()[40:]
    found = decode(b"\n".join([SIMPLIFIED.encode()] * 30 + [broken]))
    assert found.encoding == "utf-8"
    assert SIMPLIFIED in found.text
