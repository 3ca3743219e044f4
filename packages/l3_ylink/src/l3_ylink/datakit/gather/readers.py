"""Pieces of the input to documents, one after another; what cannot be read is a document with a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from l3_ylink.datakit.documents.batch import Document
from l3_ylink.datakit.fileqa.decode import decode
from l3_ylink.datakit.fileqa.extract import Extracted, How, extract, unpack
from l3_ylink.datakit.recipe import Source

from .formats import format_of
from .listing import Piece
from .places import open_bytes
from .rows import Row, csv_rows, jsonl_rows, parquet_rows
from .warc import warc_records

URL_FIELDS = ("url", "source_url", "warc_url")
DATE_FIELDS = ("date", "timestamp", "created", "published")
ABOUT = {"id", "title", *URL_FIELDS, *DATE_FIELDS}
"""Fields of a row, besides its text, that say something of the document."""


def read_piece(folder: Path, piece: Piece, source: Source, *, how: How, longest: int) -> Iterator[Document]:
    """The documents of a piece; one longer than `longest` characters comes in parts (`id~2` …)."""
    for document in _read(folder, piece, source, how):
        yield from _parts(document, longest)


def _read(folder: Path, piece: Piece, source: Source, how: How) -> Iterator[Document]:
    kind = format_of(piece.path)
    try:
        if kind == "jsonl":
            yield from _rows(jsonl_rows(folder, piece), piece, source, kind)
        elif kind == "csv":
            yield from _rows(csv_rows(folder, piece), piece, source, kind)
        elif kind == "parquet":
            names = {source.text_field, *ABOUT}
            yield from _rows(parquet_rows(folder, piece, names), piece, source, kind)
        elif kind == "warc":
            yield from _warc(folder, piece, source, how)
        elif source.split is not None:
            yield from _split(folder, piece, source, kind)
        else:
            found = extract(piece.path, _content(folder, piece), how)
            yield _document(piece.path, source, piece.path, kind, found)
    except OSError as error:
        found = Extracted(error=f"unreadable: {error.strerror or error}")
        yield _document(piece.path, source, piece.path, kind, found)


def _content(folder: Path, piece: Piece) -> bytes:
    with open_bytes(folder, piece.path) as stream:
        return stream.read()


def _document(
    mark: str, source: Source, path: str, kind: str, found: Extracted, *, url: str = "", date: str = ""
) -> Document:
    about = (found.title, found.undecodable, url, date, found.skipped)
    return Document(mark, source.name, path, kind, found.text, found.error, *about)


def _split(folder: Path, piece: Piece, source: Source, kind: str) -> Iterator[Document]:
    """A text file that holds many documents, divided by lines equal to the source's `split`."""
    decoded = decode(unpack(piece.path, _content(folder, piece)))
    texts = re.split(rf"^{re.escape(source.split or '')}[ \t]*\r?$\n?", decoded.text, flags=re.MULTILINE)
    for number, text in enumerate(texts, 1):
        if text.strip():
            found = Extracted(text.strip("\n"), undecodable=text.count("\ufffd"))
            yield _document(f"{piece.path}#{number}", source, piece.path, kind, found)


def _rows(rows: Iterator[Row], piece: Piece, source: Source, kind: str) -> Iterator[Document]:
    """Rows as documents, each named by its place in the file or by its id field."""
    for row in rows:
        mark = row.place if row.fields.get("id") in (None, "") else row.fields["id"]
        yield _document(
            f"{piece.path}#{mark}", source, piece.path, kind, _row(row, source),
            url=_first(row.fields, URL_FIELDS), date=_first(row.fields, DATE_FIELDS),
        )  # fmt: skip


def _row(row: Row, source: Source) -> Extracted:
    if row.error:
        return Extracted(error=row.error)
    text = row.fields.get(source.text_field)
    if not isinstance(text, str):
        return Extracted(error=f"no text in field {source.text_field!r}")
    return (
        Extracted(text, title=str(row.fields.get("title") or ""))
        if text.strip()
        else Extracted(error="empty")
    )


def _first(fields: dict[str, Any], names: tuple[str, ...]) -> str:
    values = (fields[name] for name in names if fields.get(name))
    return next((str(value) for value in values if not isinstance(value, dict | list)), "")


def _warc(folder: Path, piece: Piece, source: Source, how: How) -> Iterator[Document]:
    for record in warc_records(folder, piece):
        found = Extracted(error=record.error)
        if not record.error:
            found = extract(f"record{record.ending}", record.body, how)
        mark = f"{piece.path}#{record.place}"
        yield _document(mark, source, piece.path, "warc", found, url=record.url, date=record.date)


def _parts(document: Document, longest: int) -> Iterator[Document]:
    if len(document.text) <= longest:
        yield document
        return
    start, number = 0, 1
    while start < len(document.text):
        end = start + longest
        if end < len(document.text):
            line_end = document.text.rfind("\n", start + longest // 2, end)
            end = line_end + 1 if line_end > 0 else end
        mark = document.id if number == 1 else f"{document.id}~{number}"
        yield Document(
            mark,
            document.source,
            document.path,
            document.format,
            document.text[start:end],
            None,
            document.title,
            document.undecodable,
            document.url,
            document.date,
        )
        start, number = end, number + 1
