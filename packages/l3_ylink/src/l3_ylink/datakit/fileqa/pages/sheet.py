"""Opens a PDF and reads one page of it: what its reading process answers."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pypdfium2

from .characters import read_page
from .lines import Line, page_lines
from .tables import Found, find_tables


class Read(NamedTuple):
    """What a page holds.  `tables` have no membership masks any more; `letters` counts visible characters."""

    number: int
    height: float
    lines: list[Line]
    tables: list[Found]
    letters: int
    image_share: float


class Opened(NamedTuple):
    """A document's pages and its outline: titles with their level."""

    pages: int
    outline: list[tuple[str, int]]
    title: str


def open_document(source: bytes | Path) -> tuple[pypdfium2.PdfDocument, Opened]:
    """Opens a PDF; raises `PdfiumError`."""
    document = pypdfium2.PdfDocument(source)
    outline: list[tuple[str, int]] = []
    with contextlib.suppress(pypdfium2.PdfiumError, ValueError, RecursionError):
        for entry in document.get_toc(max_depth=6):
            outline.append((entry.get_title(), entry.level + 1))
            if len(outline) > 20_000:
                break
    title = ""
    with contextlib.suppress(pypdfium2.PdfiumError, UnicodeDecodeError, ValueError):
        title = document.get_metadata_value("Title")
    return document, Opened(len(document), outline, title)


def read(document: pypdfium2.PdfDocument, number: int) -> Read:
    """One page, counted from 1."""
    sheet = document[number - 1]
    try:
        page = read_page(sheet)
    finally:
        sheet.close()
    tables = find_tables(page, number)
    free = page.upright.copy()
    for table in tables:
        free &= ~table.members
    lines = page_lines(page, np.flatnonzero(free))
    bare = [table._replace(members=np.zeros(0, bool)) for table in tables]
    return Read(number, page.height, lines, bare, len(page.codes), page.image_share)
