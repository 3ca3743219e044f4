"""Office files, books, HTML and Markdown to blocks; archives that are not what they seem."""

from __future__ import annotations

import datetime as dt
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink._kit.problems import BadInput, NotFound
from l3_ylink.datakit.fileqa.blocks import Block, FileDocument, Span, Table
from l3_ylink.datakit.fileqa.document import read_document
from l3_ylink.datakit.fileqa.limits import Limits
from l3_ylink.datakit.fileqa.render import render

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def kinds(document: FileDocument) -> list[tuple[str, str]]:
    assert document.error is None
    return [(block.kind, block.text) for block in document.blocks]


def saved(document: object) -> bytes:
    stream = io.BytesIO()
    document.save(stream)  # type: ignore[attr-defined]
    return stream.getvalue()


def zipped(members: Mapping[str, str | bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def test_docx_structure() -> None:
    docx = pytest.importorskip("docx")
    document = docx.Document()
    document.core_properties.title = "手册"
    document.add_heading("第一章", 1)
    document.add_heading("Details", 2)
    document.add_paragraph("Running text.")
    document.add_paragraph("a point", style="List Bullet")
    document.add_paragraph("step", style="List Number")
    document.add_paragraph("next step", style="List Number")
    for line in ("int main() {", "}"):
        document.add_paragraph().add_run(line).font.name = "Courier New"
    found = read_document("a.docx", saved(document))
    assert found.title == "手册"
    assert kinds(found) == [
        ("heading", "第一章"),
        ("heading", "Details"),
        ("paragraph", "Running text."),
        ("list", "a point"),
        ("list", "step"),
        ("list", "next step"),
        ("code", "int main() {\n}"),
    ]
    assert [block.level for block in found.blocks[:2]] == [1, 2]
    assert [block.marker for block in found.blocks[3:6]] == ["•", "1.", "2."]
    assert found.blocks[2].spans == (Span(0, 13, part="word/document.xml#p3", chars=(0, 13)),)


def test_docx_tables_with_merged_and_nested_cells() -> None:
    docx = pytest.importorskip("docx")
    document = docx.Document()
    table = document.add_table(3, 3)
    for row in range(3):
        for column in range(3):
            table.cell(row, column).text = f"{row}{column}"
    table.cell(1, 0).merge(table.cell(2, 0)).text = "down"
    table.cell(0, 1).merge(table.cell(0, 2)).text = "across"
    frame = document.add_table(1, 1)
    frame.cell(0, 0).text = "framed text"
    found = read_document("a.docx", saved(document))
    assert [block.kind for block in found.blocks] == ["table", "paragraph"]
    (inner,) = found.tables()
    assert inner.grid() == [["00", "across", ""], ["down", "11", "12"], ["", "21", "22"]]
    assert render(found.blocks, "html").text.count("rowspan") == 1


def test_docx_shows_what_was_inserted_and_not_what_was_deleted() -> None:
    docx = pytest.importorskip("docx")
    document = docx.Document()
    paragraph = document.add_paragraph("kept ")
    from lxml import etree  # type: ignore[import-untyped]

    for tag, inner, words in (("ins", "t", "new"), ("del", "delText", "old")):
        change = etree.SubElement(paragraph._p, f"{{{W}}}{tag}")
        run = etree.SubElement(change, f"{{{W}}}r")
        etree.SubElement(run, f"{{{W}}}{inner}").text = words
    assert kinds(read_document("a.docx", saved(document))) == [("paragraph", "kept new")]


def test_pptx_slides_tables_and_notes() -> None:
    pptx = pytest.importorskip("pptx")
    deck = pptx.Presentation()
    for title in ("Opening", "Results"):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = "first\nsecond"
    slide.notes_slide.notes_text_frame.text = "say this slowly"
    table = slide.shapes.add_table(2, 2, 0, 5_000_000, 4_000_000, 800_000).table
    for place, words in enumerate(["a", "b", "1", "2"]):
        table.cell(place // 2, place % 2).text = words
    found = read_document("a.pptx", saved(deck))
    assert kinds(found)[:3] == [("heading", "Opening"), ("list", "first"), ("list", "second")]
    assert [table.grid() for table in found.tables()] == [[["a", "b"], ["1", "2"]]]
    assert kinds(found)[-1] == ("note", "say this slowly")
    assert [block.pages() for block in found.blocks] == [[1]] * 3 + [[2]] * 5
    title_box = found.blocks[0].spans[0].box
    assert title_box is not None
    assert 0 <= title_box[0] < title_box[2] <= 720.0  # ten inches


def test_xlsx_sheets_values_and_addresses() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "数据"
    sheet["B2"] = "Report"
    for row in (["name", "count", "day"], ["x", 3.0, dt.date(2026, 1, 2)], ["y", 0.5, None]):
        sheet.append([None, *row])
    sheet["A9"] = "a remark"
    found = read_document("a.xlsx", saved(book))
    assert [block.kind for block in found.blocks] == ["heading", "paragraph", "table", "paragraph"]
    (table,) = found.tables()
    assert table.grid() == [["name", "count", "day"], ["x", "3", "2026-01-02"], ["y", "0.5", ""]]
    assert table.rows[1][1].spans == (Span(0, 1, 1, None, "数据!C4", (0, 1)),)


def test_a_long_sheet_comes_in_parts_that_all_have_the_head() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for number in range(1201):
        book.active.append(["key", "value"] if not number else [number, f"v{number}"])
    tables = list(read_document("a.xlsx", saved(book)).tables())
    assert [table.grid()[0] for table in tables] == [["key", "value"]] * 3
    rows = [row for table in tables for row in table.grid()[1:]]
    assert rows == [[str(number), f"v{number}"] for number in range(1, 1201)]


EPUB: dict[str, str] = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
    '<rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
    "OEBPS/book.opf": '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
    "<metadata><dc:title>唐诗</dc:title></metadata><manifest>"
    '<item id="two" href="two.xhtml" media-type="application/xhtml+xml"/>'
    '<item id="one" href="on%20e.xhtml" media-type="application/xhtml+xml"/>'
    '<item id="lost" href="lost.xhtml" media-type="application/xhtml+xml"/></manifest>'
    '<spine><itemref idref="one"/><itemref idref="lost"/><itemref idref="two"/></spine></package>',
    "OEBPS/on e.xhtml": "<html><body><h1>第一</h1><p>白日依山尽</p></body></html>",
    "OEBPS/two.xhtml": "<html><body><h1>第二</h1><p>黄河入海流</p></body></html>",
}


def test_epub_chapters_come_in_the_order_of_the_spine() -> None:
    found = read_document("a.epub", zipped(EPUB))
    assert found.title == "唐诗"
    assert [text for _, text in kinds(found)] == ["第一", "白日依山尽", "第二", "黄河入海流"]
    assert [(skipped.page, skipped.part) for skipped in found.skipped] == [(2, "OEBPS/lost.xhtml")]
    (span,) = found.blocks[3].spans
    chapter = str(EPUB[span.part])
    assert span.page == 3
    assert span.chars is not None
    assert chapter[span.chars[0] : span.chars[1]] == "黄河入海流"


PAGE = """<html><head><title>T &amp; t</title><style>p {}</style></head><body>
<nav>Home</nav><h2>Head</h2><p>Hello <b>bold</b>
 world &amp; co<br>next</p><ul><li>one<ol><li>deep</li></ol></li><li>two<p>more of two</p></li></ul>
<pre>a
  b</pre>
<table><thead><tr><th>k</th><th>v</th></tr></thead><tr><td colspan="2">c</td></tr></table>
<table><tr><td>
<div class="note">laid out by a table</div></td></tr></table><script>x()</script></body></html>"""


def test_html_structure_and_places_in_the_source() -> None:
    found = read_document("a.html", PAGE.encode())
    assert found.title == "T & t"
    assert kinds(found) == [
        ("heading", "Head"),
        ("paragraph", "Hello bold world & co\nnext"),
        ("list", "one"),
        ("list", "deep"),
        ("list", "two"),
        ("paragraph", "more of two"),
        ("code", "a\n  b"),
        ("table", "k | v\nc | "),
        ("paragraph", "laid out by a table"),
    ]
    assert [(block.level, block.marker) for block in found.blocks[2:5]] == [(1, "•"), (2, "1."), (1, "•")]
    shown = render(found.blocks)
    for span in shown.spans:
        assert span.chars is not None
        raw = PAGE[span.chars[0] : span.chars[1]].replace("&amp;", "&")
        assert raw.split() == shown.text[span.start : span.end].split()
    assert len(shown.spans) >= 12


MARKDOWN = """---
draft: true
---
# 标题

Some *text* with `code` and a [link](http://example.org/)
over two lines.

- a
  1. b

```python
x = "|"
```

| k | v |
|---|---|
| a | b \\| c |
"""


def test_markdown_structure_and_its_way_there_and_back() -> None:
    found = read_document("a.md", MARKDOWN.encode())
    assert kinds(found) == [
        ("heading", "标题"),
        ("paragraph", "Some text with code and a link over two lines."),
        ("list", "a"),
        ("list", "b"),
        ("code", 'x = "|"'),
        ("table", "k | v\na | b | c"),
    ]
    again = read_document("b.md", render(found.blocks, "markdown").text.encode())
    assert kinds(again) == kinds(found)
    (span,) = found.blocks[4].spans
    assert span.chars is not None
    assert MARKDOWN[span.chars[0] : span.chars[1]] == 'x = "|"'


def test_a_bomb_in_any_archive_is_found_before_it_is_unpacked() -> None:
    zeros = bytes(40_000_000)
    assert read_document("a.docx", zipped({"word/document.xml": zeros})).error == "bomb"
    assert read_document("a.epub", zipped({**EPUB, "OEBPS/big.xhtml": zeros})).error == "bomb"
    laughs = '<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><a>&b;</a>'
    assert read_document("a.docx", zipped({"word/document.xml": laughs})).error == "bomb"
    many: dict[str, str | bytes] = {**EPUB, **{f"OEBPS/{number}": bytes(1000) for number in range(30)}}
    assert read_document("a.epub", zipped(many), limits=Limits(unpacked=20_000)).error == "bomb"


def test_a_bomb_in_a_workbook_is_found_before_it_is_unpacked() -> None:
    pytest.importorskip("openpyxl")
    parts: dict[str, str | bytes] = {"xl/workbook.xml": "<a/>", "xl/worksheets/s.xml": bytes(40_000_000)}
    assert read_document("a.xlsx", zipped(parts)).error == "bomb"


def test_damage_is_a_reason() -> None:
    docx = pytest.importorskip("docx")
    whole = saved(docx.Document())
    assert read_document("a.docx", whole).error == "empty"
    assert read_document("a.docx", whole[: len(whole) // 2]).error == "broken"
    assert read_document("a.docx", b"").error == "broken"
    assert read_document("a.docx", zipped({"else.txt": "x"})).error == "broken"
    assert read_document("a.docx", zipped({"word/document.xml": "<a"})).error == "broken"
    assert read_document("a.epub", zipped({**EPUB, "OEBPS/book.opf": "<package"})).error == "broken"
    locked = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500) + "EncryptedPackage".encode("utf-16-le")
    assert read_document("a.docx", locked).error == "password"
    drm = {**EPUB, "META-INF/encryption.xml": "<e><EncryptionMethod Algorithm='urn:adept'/></e>"}
    assert read_document("a.epub", zipped(drm)).error == "password"


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_a_damaged_archive_never_raises(data: st.DataObject) -> None:
    content = bytearray(zipped(EPUB))
    for _ in range(3):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    found = read_document("a.epub", bytes(content))
    assert found.blocks or found.error


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet=st.sampled_from("<>/ap&;'\" \nul中\0#-|`*[]"), max_size=60))
def test_any_text_is_read_as_html_and_markdown(text: str) -> None:
    for name in ("a.html", "a.md"):
        found = read_document(name, text.encode())
        for form in ("text", "markdown", "html"):
            shown = render(found.blocks, form)
            ends = [0, *(place for span in shown.spans for place in (span.start, span.end)), len(shown.text)]
            assert ends == sorted(ends)


def test_the_sources_of_a_range_are_those_that_it_touches() -> None:
    one = Block("paragraph", "abcdef", (Span(0, 3, 1), Span(3, 6, 2)))
    shown = render([one, Block("heading", "gh", (Span(0, 2, 3),), 1)], "markdown")
    assert shown.text == "abcdef\n\n# gh\n"
    assert shown.sources(2, 4) == [Span(2, 3, 1), Span(3, 4, 2)]
    assert shown.sources(6, 11) == [Span(10, 11, 3)]
    assert shown.sources(6, 9) == []


def test_pipes_and_marks_are_escaped_in_markdown() -> None:
    table = Table((), 1)
    assert render([Block("table", "", table=table)], "markdown").text.strip() in ("", "|")
    shown = render([Block("paragraph", "a*b* <c> [d] snake_case _e_")], "markdown").text
    assert kinds(read_document("a.md", shown.encode())) == [("paragraph", "a*b* <c> [d] snake_case _e_")]


def test_wrong_names_are_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"\.pdf"):
        read_document("a.xyz", b"")
    with pytest.raises(NotFound):
        read_document(tmp_path / "none.pdf")
