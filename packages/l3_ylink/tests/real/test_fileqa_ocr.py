"""A scanned page, recognised by RapidOCR with the models of its package."""

from __future__ import annotations

import io

import pypdfium2
import pytest
from l3_ylink.datakit.fileqa.document import read_document

pytest.importorskip("rapidocr", reason="needs the extra ocr")
Image = pytest.importorskip("PIL.Image")
ImageDraw = pytest.importorskip("PIL.ImageDraw")
ImageFont = pytest.importorskip("PIL.ImageFont")

LINES = [
    "Scanned pages hold an image only",
    "and no letters that a reader could take",
    "Invoice 2026 total 4711",
]


def scan(lines: list[str]) -> bytes:
    """A PDF of one page with an image of the lines."""
    image = Image.new("L", (1240, 1754), 255)
    font = ImageFont.load_default(size=36)
    for number, line in enumerate(lines):
        ImageDraw.Draw(image).text((120, 160 + 60 * number), line, fill=0, font=font)
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=85)
    document = pypdfium2.PdfDocument.new()
    picture = pypdfium2.PdfImage.new(document)
    picture.load_jpeg(stream, inline=True)
    picture.set_matrix(pypdfium2.PdfMatrix().scale(595, 842))
    page = document.new_page(595, 842)
    page.insert_obj(picture)
    page.gen_content()
    out = io.BytesIO()
    document.save(out)
    document.close()
    return out.getvalue()


@pytest.mark.real
def test_a_scanned_page_is_recognised_with_its_boxes() -> None:
    found = read_document("scan.pdf", scan(LINES))
    text = " ".join(block.text for block in found.blocks)
    assert [word for line in LINES for word in line.split() if word not in text] == []
    box = found.blocks[0].spans[0].box
    assert box is not None
    assert box[0] == pytest.approx(120 / 1240 * 595, abs=6)  # the place that it was drawn at
    assert box[1] == pytest.approx(165 / 1754 * 842, abs=8)
    assert found.blocks[0].spans[0].chars is None


@pytest.mark.real
def test_a_scan_that_is_not_to_be_recognised_is_reported() -> None:
    found = read_document("scan.pdf", scan(LINES), ocr=False)
    assert [(skipped.page, skipped.reason) for skipped in found.skipped] == [(1, "no_text")]
    assert found.error == "no_text"
