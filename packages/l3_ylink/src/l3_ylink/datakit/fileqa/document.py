"""Files to blocks: one function for every format, with what was skipped and why."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath

from l3_ylink._kit.problems import BadInput, NotFound

from .blocks import Block, FileDocument, Item, Skipped, Source
from .limits import Limits, Unreadable

FORMATS = {
    ".pdf": "pdf",
    ".docx": "docx",
    ".docm": "docx",
    ".pptx": "pptx",
    ".pptm": "pptx",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
    ".epub": "epub",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".md": "markdown",
    ".markdown": "markdown",
}
"""Formats by the ending of the name."""

READERS = {
    "pdf": ("pdf", "pdf_blocks"),
    "docx": ("docx", "docx_blocks"),
    "pptx": ("pptx", "pptx_blocks"),
    "xlsx": ("xlsx", "xlsx_blocks"),
    "epub": ("epub", "epub_blocks"),
    "html": ("html_blocks", "html_file_blocks"),
    "markdown": ("markdown", "markdown_blocks"),
}
"""Module and function of each format."""


def read_document(
    path: str | Path, data: bytes | None = None, *, ocr: bool = True, limits: Limits | None = None
) -> FileDocument:
    """A whole file as blocks.  `data` is its content; without it the file is read from the disk.

    A file that cannot be read gives a document without blocks whose `error` is the reason: broken, password,
    bomb, time, memory, too_many_pages or empty.  Raises `BadInput` for a format that is not known.
    """
    document = FileDocument(str(path), file_format(path))
    reading = Reading(document, stream_blocks(path, data, ocr=ocr, limits=limits))
    document.blocks.extend(reading)
    return document


class Reading:
    """The blocks of a file as they come; what is known besides them is noted in its document.

    The document's own `blocks` are left as they are, so that a file of any length may be read through.
    """

    def __init__(self, document: FileDocument, items: Iterator[Item]) -> None:
        self.document, self.items = document, items

    def __iter__(self) -> Iterator[Block]:
        document, found = self.document, False
        try:
            for item in self.items:
                if isinstance(item, Block):
                    found = True
                    if item.kind == "heading":
                        document.title = document.title or item.text
                    yield item
                elif isinstance(item, Skipped):
                    document.skipped.append(item)
                else:
                    document.title = document.title or item.text
        except Unreadable as problem:
            document.error = str(problem)
        if not found and document.error is None:
            document.error = document.skipped[0].reason if document.skipped else "empty"


def stream_blocks(
    path: str | Path, data: bytes | None = None, *, ocr: bool = True, limits: Limits | None = None
) -> Iterator[Item]:
    """The blocks of a file one after another, in bounded memory; raises `Unreadable` with the reason."""
    kind = file_format(path)
    source: Source = data if data is not None else Path(path)
    if isinstance(source, Path) and not source.is_file():
        raise NotFound("there is no such file", field=str(path), do="give the path of a file")
    yield from _reader(kind, ocr=ocr)(source, limits or Limits())


def file_format(path: str | Path) -> str:
    """pdf, docx, pptx, xlsx, epub, html or markdown, by the ending of the name."""
    suffix = PurePosixPath(str(path).lower()).suffix
    kind = FORMATS.get(suffix)
    if kind is None:
        raise BadInput(
            f"has an unknown format {suffix or '(no ending)'!r}",
            field=str(path),
            do=f"give one of {', '.join(sorted(FORMATS))}",
        )
    return kind


def _reader(kind: str, *, ocr: bool) -> Callable[[Source, Limits], Iterator[Item]]:
    """The function that reads a format; its libraries are loaded when it is first used."""
    module, name = READERS[kind]
    reader = getattr(importlib.import_module(f".{module}", __package__), name)
    return partial(reader, ocr=ocr) if kind == "pdf" else reader
