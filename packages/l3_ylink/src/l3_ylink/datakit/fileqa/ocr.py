"""Text of scanned pages by RapidOCR, whose models for Chinese and Latin come with its package."""

from __future__ import annotations

import statistics
from functools import cache
from typing import Any

import pypdfium2

from .pages.lines import Line
from .pages.sheet import Read
from .pages.wrap import NO_CHARS

PIXELS = 2_000
"""The longer side of a page as it is shown to the recogniser."""

LEAST_SCORE = 0.5
LETTER_SHARE = 0.8
"""The size of the letters as a share of the height of the box found around a line."""


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    return RapidOCR(
        params={"Global.log_level": "critical", "EngineConfig.onnxruntime.intra_op_num_threads": 1}
    )


def read_scan(document: pypdfium2.PdfDocument, number: int) -> Read:
    """The lines that are recognised on a page, counted from 1; raises ImportError without the extra `ocr`."""
    engine = _engine()
    page = document[number - 1]
    try:
        width, height = page.get_size()
        scale = min(PIXELS / max(width, height, 1.0), 6.0)
        image = page.render(scale=scale, rev_byteorder=False).to_numpy()
    finally:
        page.close()
    found = engine(image[:, :, :3])
    lines = []
    if found.txts is not None:
        for text, score, corners in zip(found.txts, found.scores, found.boxes, strict=True):
            if score >= LEAST_SCORE and text.strip():
                lines.append(_line(text.strip(), corners / scale))
    return Read(number, height, _even(lines), [], sum(len(line.text) for line in lines), 1.0)


def _line(text: str, corners: Any) -> Line:
    x0, y0 = (float(value) for value in corners.min(axis=0))
    x1, y1 = (float(value) for value in corners.max(axis=0))
    size = LETTER_SHARE * (y1 - y0)
    return Line(text, (x0, y0, x1, y1), y1 - 0.15 * (y1 - y0), size, 0.0, 0.0, shaded=False, chars=NO_CHARS)


def _even(lines: list[Line]) -> list[Line]:
    """Sizes near the usual one are the usual one: boxes found in an image are not exact."""
    if not lines:
        return []
    usual = statistics.median(line.size for line in lines)
    return [line._replace(size=usual) if 0.7 < line.size / usual < 1.35 else line for line in lines]
