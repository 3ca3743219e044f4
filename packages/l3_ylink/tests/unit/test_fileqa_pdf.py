"""PDF pages to blocks: structure, reading order, tables and the way back, on files made here."""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pypdfium2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink.datakit.fileqa import pdf
from l3_ylink.datakit.fileqa.blocks import Block, FileDocument
from l3_ylink.datakit.fileqa.document import read_document, stream_blocks
from l3_ylink.datakit.fileqa.limits import Limits
from l3_ylink.datakit.fileqa.pages.reader import Session
from l3_ylink.datakit.fileqa.pages.wrap import glue
from l3_ylink.datakit.fileqa.render import render

FONTS = {
    "plain": "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    "bold": "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >>",
    "mono": "<< /Type /Font /Subtype /Type1 /BaseFont /Courier >>",
    "song": (
        "<< /Type /Font /Subtype /Type0 /BaseFont /STSong-Light /Encoding /UniGB-UCS2-H /DescendantFonts"
        " [<< /Type /Font /Subtype /CIDFontType0 /BaseFont /STSong-Light /DW 1000 /CIDSystemInfo"
        " << /Registry (Adobe) /Ordering (GB1) /Supplement 2 >> >>] >>"
    ),
}
PAGE = (595.0, 842.0)
LOREM = "the quick brown fox jumps over the lazy dog while seven wizards judge my vow of silence again "


@dataclass
class Sheet:
    """The drawing of a page; y counts from the top."""

    drawn: list[str] = field(default_factory=list)
    rotate: int = 0

    def text(self, x: float, y: float, words: str, *, size: float = 10, font: str = "plain") -> Sheet:
        if font == "song":
            shown = f"<{words.encode('utf-16-be').hex()}>"
        else:
            shown = "(" + words.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)") + ")"
        self.drawn.append(f"BT /{font} {size} Tf {x} {PAGE[1] - y} Td {shown} Tj ET")
        return self

    def lines(
        self, x: float, y: float, lines: Sequence[str], *, size: float = 10, font: str = "plain"
    ) -> Sheet:
        for number, line in enumerate(lines):
            self.text(x, y + number * 1.2 * size, line, size=size, font=font)
        return self

    def rule(self, x0: float, y0: float, x1: float, y1: float) -> Sheet:
        self.drawn.append(f"0.5 w {x0} {PAGE[1] - y0} m {x1} {PAGE[1] - y1} l S")
        return self

    def grid(self, xs: Sequence[float], ys: Sequence[float]) -> Sheet:
        for y in ys:
            self.rule(xs[0], y, xs[-1], y)
        for x in xs:
            self.rule(x, ys[0], x, ys[-1])
        return self

    def raw(self, operators: str) -> Sheet:
        self.drawn.append(operators)
        return self


def make_pdf(sheets: Sequence[Sheet], *, extra: Sequence[str] = (), password: bytes | None = None) -> bytes:
    """A PDF of the sheets; `extra` are objects from number 3 on that resources name X3, X4 …"""
    objects: list[bytes] = [b"", b""]
    objects += [item.encode("latin-1") for item in extra]
    forms = " ".join(f"/X{number} {number} 0 R" for number in range(3, 3 + len(extra)))
    fonts = []
    for name, font in FONTS.items():
        objects.append(font.encode())
        fonts.append(f"/{name} {len(objects)} 0 R")
    resources = f"<< /Font << {' '.join(fonts)} >> /XObject << {forms} >> >>"
    kids = []
    for sheet in sheets:
        content = "\n".join(sheet.drawn).encode("latin-1")
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {PAGE[0]} {PAGE[1]}] /Rotate {sheet.rotate}"
            f" /Resources {resources} /Contents {len(objects)} 0 R >>".encode()
        )
        kids.append(f"{len(objects)} 0 R")
    objects[0] = b"<< /Type /Catalog /Pages 2 0 R >>"
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>".encode()
    trailer = b""
    if password is not None:
        objects.append(_locked(password))
        trailer = b"/Encrypt %d 0 R /ID [<00> <00>]" % len(objects)
    data = b"%PDF-1.5\n"
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return data + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n"
        % (len(objects) + 1, table, len(objects) + 1, trailer, len(data))
    )


def _locked(password: bytes) -> bytes:
    """The encryption entry of PDF 1.4, 7.6.3 (revision 2, 40 bits), for a user password."""
    padding = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")
    padded = (password + padding)[:32]
    owner = _rc4(hashlib.md5(padded, usedforsecurity=False).digest()[:5], padded)
    key = hashlib.md5(padded + owner + struct.pack("<i", -4) + b"\0", usedforsecurity=False).digest()[:5]
    return b"<< /Filter /Standard /V 1 /R 2 /P -4 /O <%s> /U <%s> >>" % (
        owner.hex().encode(),
        _rc4(key, padding).hex().encode(),
    )


def _rc4(key: bytes, data: bytes) -> bytes:
    box, j, out = list(range(256)), 0, bytearray()
    for i in range(256):
        j = (j + box[i] + key[i % len(key)]) % 256
        box[i], box[j] = box[j], box[i]
    i = j = 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + box[i]) % 256
        box[i], box[j] = box[j], box[i]
        out.append(byte ^ box[(box[i] + box[j]) % 256])
    return bytes(out)


def read(*sheets: Sheet) -> FileDocument:
    found = read_document("x.pdf", make_pdf(sheets))
    assert found.error is None
    return found


def of_kind(document: FileDocument, kind: str) -> list[str]:
    return [block.text for block in document.blocks if block.kind == kind]


def wrapped(count: int, *, width: int = 90) -> list[str]:
    """Lines of running text that fill a column."""
    words = LOREM * count
    return [words[place : place + width].ljust(width, "x") for place in range(0, count * width, width)]


def test_wrapped_lines_are_one_paragraph_and_divided_words_are_whole_again() -> None:
    sheet = Sheet().lines(
        60,
        100,
        [
            "This line fills its column up to the right edge and ends within a divi-",
            "ded word, while the next one holds a well-known compound and the third",
            "line cuts it where the compound itself has its hyphen, which is well-",
            "known and stays.",
            "A new paragraph begins since the last line above ended before its time.",
        ],
    )
    first, second = of_kind(read(sheet), "paragraph")
    assert "a divided word, while" in first
    assert first.endswith("which is well-known and stays.")
    assert second.startswith("A new paragraph")


def test_chinese_lines_are_joined_without_a_space() -> None:
    sheet = Sheet().lines(60, 100, ["白日依山尽黄河入海流欲穷千里目更上一层楼" * 2, "登鹳雀楼"], font="song")
    assert of_kind(read(sheet), "paragraph") == ["白日依山尽黄河入海流欲穷千里目更上一层楼" * 2 + "登鹳雀楼"]


def test_verse_keeps_its_lines() -> None:
    verse = ["白日依山尽，黄河入海流。", "欲穷千里目，更上一层楼。"]
    sheet = Sheet().lines(60, 100, verse, font="song")
    assert of_kind(read(sheet), "paragraph") == ["\n".join(verse)]


def test_text_beside_a_picture_is_one_paragraph() -> None:
    sheet = Sheet().lines(60, 100, wrapped(5)).lines(300, 180, [line[:40] for line in wrapped(8)])
    assert [len(text) > 300 for text in of_kind(read(sheet), "paragraph")] == [True, True]


def test_headings_lists_and_code_are_told_apart() -> None:
    sheet = (
        Sheet()
        .text(60, 90, "2.1 How to begin", size=16)
        .lines(60, 130, [line + "." for line in wrapped(3)])
        .text(60, 190, "\x95 first thing to do")
        .text(60, 204, "\x95 second thing to do")
        .lines(60, 240, ["def f(x):", "    return x  # it's", "", "print(f(1))"], font="mono", size=9)
    )
    blocks = read(sheet).blocks
    assert [block.kind for block in blocks] == ["heading", "paragraph", "list", "list", "code"]
    assert (blocks[0].text, blocks[0].level) == ("2.1 How to begin", 2)
    assert [block.text for block in blocks[2:4]] == ["first thing to do", "second thing to do"]
    assert blocks[4].text == "def f(x):\n    return x  # it's\n\nprint(f(1))"


def test_what_runs_at_the_edges_of_pages_goes_and_what_does_not_stays() -> None:
    sheets = [
        Sheet()
        .text(60, 40, "The Manual")
        .text(520, 40, f"{number} / 9")
        .text(60, 90, f"Chapter {number * number}")
        .text(60, 300, f"Page {number} says something of its own.")
        .text(290, 810, str(number))
        for number in range(1, 7)
    ]
    sheets[3].text(60, 65, "Only here at the top")
    text = render(read(*sheets).blocks).text
    assert "The Manual" not in text
    assert "/ 9" not in text
    assert [line for line in text.splitlines() if line.isdigit()] == []
    assert "Only here at the top" in text
    assert all(f"Page {number} says" in text for number in range(1, 7))
    assert text.count("Chapter ") == 6


def test_headers_that_change_with_the_chapter_go_when_they_hold_the_page_number() -> None:
    chapters = ["Apples", "Apples", "Pears", "Plums", "Plums", "Figs"]
    sheets = [
        Sheet().text(60, 40, name).text(530, 40, str(number + 10)).lines(60, 90, wrapped(4))
        for number, name in enumerate(chapters)
    ]
    text = render(read(*sheets).blocks).text
    assert not any(name in text for name in chapters)


def test_a_sentence_goes_on_over_the_end_of_a_page() -> None:
    line = "a line of running text that goes up to the very edge of the column on this page,"
    one = Sheet().lines(60, 700, [line] * 3)
    two = Sheet().lines(60, 80, [line] * 2 + ["and ends here."])
    (paragraph,) = read(one, two).blocks
    assert paragraph.text.endswith("and ends here.")
    assert paragraph.pages() == [1, 2]


def test_the_left_column_is_read_before_the_right_one() -> None:
    left = [f"left {number} words fill this column up" for number in range(12)]
    right = [f"right {number} words fill the other column" for number in range(12)]
    sheet = (
        Sheet()
        .text(60, 80, "A title that stands over both of the columns of this page", size=14)
        .lines(60, 110, left)
        .lines(310, 110, right)
        .text(
            60,
            300,
            "A note under both columns that is as wide as the page is, from edge to edge of the text.",
        )
    )
    text = render(read(sheet).blocks).text
    places = [text.index(words) for words in ("A title", left[0], left[11], right[0], right[11], "A note")]
    assert places == sorted(places)


def table_sheet(cells: Sequence[Sequence[str]], *, top: float = 100, wide: float = 160) -> Sheet:
    xs = [60 + wide * column for column in range(len(cells[0]) + 1)]
    ys = [top + 20.0 * row for row in range(len(cells) + 1)]
    sheet = Sheet().grid(xs, ys)
    for row, words in enumerate(cells):
        for column, word in enumerate(words):
            sheet.text(xs[column] + 4, ys[row] + 14, word, font="plain" if word.isascii() else "song")
    return sheet


CELLS = [["Name", "Wert", "说明"], ["alpha", "1", "第一行"], ["beta", "22", "第二行"], ["gamma", "", "空的"]]


def test_a_ruled_table_has_the_cells_that_the_same_table_has_as_docx() -> None:
    docx = pytest.importorskip("docx")
    document = docx.Document()
    table = document.add_table(len(CELLS), len(CELLS[0]))
    for row, words in enumerate(CELLS):
        for column, word in enumerate(words):
            table.cell(row, column).text = word
    stream = io.BytesIO()
    document.save(stream)
    (from_docx,) = read_document("t.docx", stream.getvalue()).tables()
    (from_pdf,) = read(table_sheet(CELLS)).tables()
    assert from_pdf.grid() == from_docx.grid() == CELLS
    assert (
        render([Block("table", "", table=from_pdf)], "markdown").text.splitlines()[1] == "| --- | --- | --- |"
    )


def test_cells_over_several_places_are_one_cell() -> None:
    sheet = Sheet().grid([60, 160, 260, 360], [100, 120, 140, 160])
    sheet.drawn = [
        drawn for drawn in sheet.drawn if drawn != Sheet().rule(160, 100, 160, 160).drawn[0]
    ]  # the upright between the first two columns starts lower
    sheet.rule(160, 120, 160, 160).text(64, 114, "Both").text(264, 114, "C").text(64, 134, "a")
    sheet.text(164, 134, "b").text(264, 134, "c").text(64, 154, "d").text(164, 154, "e").text(264, 154, "f")
    (table,) = read(sheet).tables()
    assert [(cell.text, cell.columns) for cell in table.rows[0]] == [("Both", 2), ("C", 1)]
    assert table.grid() == [["Both", "", "C"], ["a", "b", "c"], ["d", "e", "f"]]
    assert '<th colspan="2">Both</th>' in render(read(sheet).blocks, "html").text


def test_a_table_that_goes_on_on_the_next_page_is_one_table_with_one_head() -> None:
    one, two = table_sheet(CELLS, top=640), table_sheet([CELLS[0], ["delta", "4", "x"]], top=80)
    (table,) = read(one, two).tables()
    assert table.grid() == [*CELLS, ["delta", "4", "x"]]


def test_words_that_are_too_long_for_their_cell_stay_in_it() -> None:
    sheet = table_sheet([["Command", "Meaning"], ["", "second cell"]], wide=80)
    sheet.text(64, 134, "/usr/share/doc/long", font="mono")
    (table,) = read(sheet).tables()
    assert table.grid()[1] == ["/usr/share/doc/long", "second cell"]


@pytest.mark.parametrize("framed", [False, True])
def test_code_is_no_table(framed: bool) -> None:
    listing = ["$ ls -l          # list files", "-rw-r--r-- 1 root  12 Jan", "drwxr-xr-x 2 user  40 Feb"] * 3
    sheet = Sheet().lines(70, 100, listing, font="mono", size=9)
    if framed:
        sheet.grid([60, 400], [85, 210])
    document = read(sheet)
    assert list(document.tables()) == []
    assert of_kind(document, "code") == ["\n".join(listing)]


def test_notes_between_rules_are_no_table() -> None:
    sheet = Sheet()
    for top in (100, 200):
        sheet.rule(60, top, 500, top).rule(60, top + 50, 500, top + 50).text(70, top + 15, "Note")
        sheet.text(70, top + 30, "Something to keep in mind when you read this page of the manual.")
    assert list(read(sheet).tables()) == []


def test_rows_between_uprights_need_no_line_under_each() -> None:
    rows = [["Key", "Value"], ["one", "1"], ["two", "2"], ["three", "3"], ["four", "4"]]
    sheet = Sheet().grid([60, 160, 260], [100, 120, 190])
    for row, words in enumerate(rows):
        for column, word in enumerate(words):
            sheet.text(64 + 100 * column, 114 + 17 * row, word)
    (table,) = read(sheet).tables()
    assert table.grid() == rows


def test_wrapped_cells_of_a_ruled_table_are_not_cut() -> None:
    sheet = Sheet().grid([60, 160, 260], [100, 120, 160, 200])
    sheet.text(64, 114, "Key").text(164, 114, "Value")
    for top in (134, 174):
        sheet.lines(64, top, ["a name over", "two lines"]).lines(164, top, ["a value over", "two lines"])
    (table,) = read(sheet).tables()
    assert table.grid() == [["Key", "Value"], *[["a name over two lines", "a value over two lines"]] * 2]


def test_three_rules_of_one_length_make_a_table_without_uprights() -> None:
    sheet = Sheet().rule(60, 100, 400, 100).rule(60, 120, 400, 120).rule(60, 180, 400, 180)
    rows = [
        ["Method", "Score", "Time"],
        ["ours", "0.91", "30"],
        ["theirs", "0.88", "318"],
        ["old", "0.7", "9"],
    ]
    for row, words in enumerate(rows):
        for column, word in enumerate(words):
            sheet.text(65 + 110 * column, 114 + 18 * row, word)
    (table,) = read(sheet).tables()
    assert table.grid() == rows


def test_a_table_without_any_rule_is_known_by_its_columns() -> None:
    sheet = Sheet().lines(60, 80, wrapped(2))
    for row, words in enumerate([*CELLS[:3], ["delta", "333", "x"]]):
        for column, word in enumerate(words):
            sheet.text(60 + 130 * column, 120 + 16 * row, word, font="plain" if word.isascii() else "song")
    document = read(sheet.lines(60, 220, wrapped(2)))
    assert [block.kind for block in document.blocks] == ["paragraph", "table", "paragraph"]
    assert next(document.tables()).grid() == [*CELLS[:3], ["delta", "333", "x"]]


def test_numbered_items_are_no_table() -> None:
    sheet = Sheet()
    for number in range(1, 7):
        sheet.text(60, 100 + 14 * number, f"{number}.").text(90, 100 + 14 * number, "an item of the list")
    document = read(sheet)
    assert [block.kind for block in document.blocks] == ["list"] * 6


def test_contents_lose_their_dots_and_page_numbers() -> None:
    sheet = Sheet()
    for number, title in enumerate(["1 Introduction", "1.1 Scope", "2 Methods"]):
        sheet.text(60, 100 + 14 * number, title + " ." * 40 + f" {number + 3}")
    entries = [block for block in read(sheet).blocks if block.kind == "contents"]
    assert [(entry.text, entry.level) for entry in entries] == [
        ("1 Introduction", 1),
        ("1.1 Scope", 2),
        ("2 Methods", 1),
    ]


def test_calls_of_footnotes_do_not_run_into_the_words() -> None:
    sheet = (
        Sheet().text(60, 100, "as was shown before").text(149, 96, "3", size=6).text(60, 130, "x" * 80 + ".")
    )
    text = render(read(sheet).blocks).text
    assert "before[3]" in text


@pytest.mark.parametrize("quarter", [0, 90, 180, 270])
def test_a_page_that_is_shown_turned_is_read_as_it_is_shown(quarter: int) -> None:
    wide, high = PAGE
    turns = {
        0: "1 0 0 1 0 0",
        90: f"0 1 -1 0 {wide} 0",
        180: f"-1 0 0 -1 {wide} {high}",
        270: f"0 -1 1 0 0 {high}",
    }
    sheet = Sheet(rotate=quarter).raw(f"q {turns[quarter]} cm")
    place = 400.0
    sheet.text(60, place, "First line of a page that is turned around as needed,")
    sheet.text(60, place + 12, "second line of it.").raw("Q")
    (block,) = read(sheet).blocks
    assert block.text == "First line of a page that is turned around as needed, second line of it."


def test_every_span_names_the_page_the_box_and_the_characters() -> None:
    sheets = [
        Sheet().text(60, 80, "1 A heading", size=18).lines(60, 120, wrapped(5)),
        table_sheet(CELLS),
        Sheet().lines(60, 100, ["int main() {", "  return 0;", "}"], font="mono"),
    ]
    data = make_pdf(sheets)
    shown = render(read_document("x.pdf", data).blocks, "markdown")
    peer = pypdfium2.PdfDocument(data)
    assert len(shown.spans) >= 20
    for span in shown.spans:
        assert span.page is not None
        assert span.chars is not None
        assert span.box is not None
        words = shown.text[span.start : span.end]
        page = peer[span.page - 1].get_textpage()
        there = page.get_text_range(span.chars[0], span.chars[1] - span.chars[0])
        assert "".join(there.split()) == "".join(words.split())
        left, top, right, bottom = span.box
        boxed = page.get_text_bounded(left - 1, PAGE[1] - bottom - 1, right + 1, PAGE[1] - top + 1)
        assert "".join(words.split()) in "".join(boxed.split())
    peer.close()


def test_damage_is_a_reason_and_not_an_exception() -> None:
    whole = make_pdf([Sheet().lines(60, 100, wrapped(3))])
    assert read_document("x.pdf", b"").error == "broken"
    assert read_document("x.pdf", b"%PDF-1.7 and then nothing of use").error == "broken"
    assert read_document("x.pdf", make_pdf([Sheet()], password=b"secret")).error == "password"
    assert read_document("x.pdf", make_pdf([Sheet()])).error == "empty"
    assert read_document("x.pdf", whole).error is None


@settings(deadline=None, max_examples=40)
@given(place=st.integers(20, 3000), byte=st.integers(0, 255))
def test_one_wrong_byte_never_raises(place: int, byte: int) -> None:
    data = bytearray(make_pdf([Sheet().lines(60, 100, wrapped(3)), table_sheet(CELLS)]))
    data[place % len(data)] = byte
    found = read_document("x.pdf", bytes(data), limits=Limits(page_seconds=5))
    assert found.blocks or found.error


def test_a_page_that_does_not_end_is_skipped_and_the_rest_is_read() -> None:
    depth, times = 9, 40  # each form draws the next one forty times
    extra = []
    for number in range(depth):
        calls = f"/X{number + 4} Do " * times if number < depth - 1 else "0 0 m 1 1 l S "
        below = f"/XObject << /X{number + 4} {number + 4} 0 R >>" if number < depth - 1 else ""
        extra.append(
            f"<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << {below} >>"
            f" /Length {len(calls)} >>\n"
            f"stream\n{calls}\nendstream"
        )
    sheets = [Sheet().text(60, 100, "Before it."), Sheet().raw("/X3 Do"), Sheet().text(60, 100, "After it.")]
    found = read_document("x.pdf", make_pdf(sheets, extra=extra), limits=Limits(page_seconds=1))
    assert [(skipped.page, skipped.reason) for skipped in found.skipped] == [(2, "time")]
    assert [block.text for block in found.blocks] == ["Before it.", "After it."]


def test_a_reader_that_is_killed_between_pages_costs_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Session.page

    def killing(self: Session, number: int, kind: str = "page") -> object:
        if number % 3 == 0:
            self.reader.process.kill()
        return ask(self, number, kind)

    sheets = [Sheet().lines(60, 300, [f"Page {number} ends here."]) for number in range(1, 8)]
    whole = read(*sheets).blocks
    monkeypatch.setattr(Session, "page", killing)
    assert read(*sheets).blocks == whole


def test_pages_are_read_as_blocks_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    ask = Session.page

    def counted(self: Session, number: int, kind: str = "page") -> object:
        asked.append(number)
        return ask(self, number, kind)

    monkeypatch.setattr(Session, "page", counted)
    data = make_pdf([Sheet().lines(60, 300, [f"Page {number} ends here."]) for number in range(60)])
    items = stream_blocks("x.pdf", data)
    next(items)
    assert max(asked) <= 2 * pdf.WINDOW
    assert len(list(items)) == 59


def test_a_file_on_the_disk_is_read_like_its_bytes(tmp_path: Path) -> None:
    data = make_pdf([Sheet().lines(60, 100, wrapped(3)), table_sheet(CELLS)])
    path = tmp_path / "a.pdf"
    path.write_bytes(data)
    assert read_document(path).blocks == read_document("a.pdf", data).blocks


@pytest.mark.parametrize(
    ("before", "after", "whole"),
    [
        ("exam-", "ple", "example"),
        ("Jean-", "Paul", "Jean-Paul"),
        ("x-", "axis", "x-axis"),
        ("一二", "三四", "一二三四"),
        ("word", "word", "word word"),
        ("http://a.org/docs/-", "page.html", "http://a.org/docs/page.html"),
        ("http://a.org/de-", "bian", "http://a.org/de-bian"),
        ("/usr/share/", "doc", "/usr/share/doc"),
        ("中文", "word", "中文 word"),
    ],
)
def test_line_ends_are_mended(before: str, after: str, whole: str) -> None:
    cut, put = glue(before, after)
    assert before[: len(before) - cut] + put + after == whole
