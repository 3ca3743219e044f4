"""PDF to text by pdfium, with what pages break put together again.

Running headers and footers go (a line at the edge of most pages, its numbers aside), words divided at a
line's end are joined, and Chinese lines that were only wrapped become one paragraph again.
"""

from __future__ import annotations

import re
from collections import Counter

import pypdfium2

EDGE_LINES = 2
"""A running header or footer is among the first or last two lines of a page."""

RUNNING_SHARE = 0.5
MOST_PAGES = 5_000
NUMBERS = re.compile(r"\d+|\b[ivxlc]+\b", re.IGNORECASE)
HYPHEN = re.compile(r"([A-Za-z]{2,})[-\u00ad\ufffe\u2010]\n([a-z]{2,})")
HAN = "\u3007\u3400-\u4dbf\u4e00-\u9fff"
WRAPPED_HAN = re.compile(rf"(?<=[{HAN}，、；：“”（）])\n(?=[{HAN}，。、；：！？”）])")
LONG_LINE = 20


class PdfError(Exception):
    """A PDF that cannot be read; the message is the reason that the report names."""


def pdf_text(data: bytes) -> str:
    """The text of a PDF, pages divided by blank lines.

    Raises `PdfError` with `password`, `broken` or `too_many_pages`.
    """
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise PdfError("password" if "password" in str(error).lower() else "broken") from error
    try:
        if len(document) > MOST_PAGES:
            raise PdfError("too_many_pages")
        pages = [_page(document, number) for number in range(len(document))]
    except pypdfium2.PdfiumError as error:
        raise PdfError("broken") from error
    finally:
        document.close()
    return "\n\n".join(mend(page) for page in without_running_lines(pages))


def _page(document: pypdfium2.PdfDocument, number: int) -> str:
    page = document[number]
    try:
        text_page = page.get_textpage()
        try:
            return str(text_page.get_text_range()).replace("\r\n", "\n").replace("\r", "\n")
        finally:
            text_page.close()
    finally:
        page.close()


def without_running_lines(pages: list[str]) -> list[str]:
    """Pages without lines that come, numbers aside, at the edge of at least half of them."""
    if len(pages) < 4:
        return pages
    split = [page.strip().splitlines() for page in pages]
    seen: Counter[str] = Counter()
    for lines in split:
        seen.update({_shape(line) for line in (*lines[:EDGE_LINES], *lines[-EDGE_LINES:])})
    running = {shape for shape, count in seen.items() if count >= RUNNING_SHARE * len(pages)}
    return ["\n".join(_inner(lines, running)) for lines in split]


def _inner(lines: list[str], running: set[str]) -> list[str]:
    start, end = 0, len(lines)
    while start < min(EDGE_LINES, end) and _shape(lines[start]) in running:
        start += 1
    while end > max(start, len(lines) - EDGE_LINES) and _shape(lines[end - 1]) in running:
        end -= 1
    return lines[start:end]


def _shape(line: str) -> str:
    return NUMBERS.sub("0", line.strip())


def mend(page: str) -> str:
    """Divided words joined, wrapped Chinese lines put together."""
    page = HYPHEN.sub(r"\1\2", page).replace("\ufffe", "-")
    pieces = WRAPPED_HAN.split(page)
    joined = pieces[0]
    for piece in pieces[1:]:
        line_before = joined[joined.rfind("\n") + 1 :]
        joined += piece if len(line_before) >= LONG_LINE else "\n" + piece
    return joined
