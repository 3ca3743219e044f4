"""Pieces of the input to documents, one after another; what cannot be read is a document with a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from l3_ylink.datakit.documents.batch import Document
from l3_ylink.datakit.fileqa.decode import decode
from l3_ylink.datakit.fileqa.extract import Extracted, extract, format_of, unpack
from l3_ylink.datakit.recipe import Source

from .listing import Piece


def read_piece(
    folder: Path, piece: Piece, source: Source, *, extractor: str, longest: int
) -> Iterator[Document]:
    """The documents of a piece; one longer than `longest` characters comes in parts (`id~2` …)."""
    for document in _read(folder, piece, source, extractor):
        yield from _parts(document, longest)


def _read(folder: Path, piece: Piece, source: Source, extractor: str) -> Iterator[Document]:
    kind = format_of(piece.path)
    try:
        if kind == "jsonl":
            yield from _jsonl(folder, piece, source)
        elif kind == "parquet":
            yield from _parquet(folder, piece, source)
        elif source.split is not None:
            yield from _split(folder, piece, source, kind)
        else:
            found = extract(piece.path, (folder / piece.path).read_bytes(), extractor=extractor)
            yield _document(piece.path, source, piece.path, kind, found)
    except OSError as error:
        yield _document(
            piece.path, source, piece.path, kind, Extracted(error=f"unreadable: {error.strerror}")
        )


def _document(mark: str, source: Source, path: str, kind: str, found: Extracted) -> Document:
    return Document(mark, source.name, path, kind, found.text, found.error, found.title, found.undecodable)


def _split(folder: Path, piece: Piece, source: Source, kind: str) -> Iterator[Document]:
    """A text file that holds many documents, divided by lines equal to the source's `split`."""
    decoded = decode(unpack(piece.path, (folder / piece.path).read_bytes()))
    texts = re.split(rf"^{re.escape(source.split or '')}[ \t]*\r?$\n?", decoded.text, flags=re.MULTILINE)
    for number, text in enumerate(texts, 1):
        if text.strip():
            found = Extracted(text.strip("\n"), undecodable=text.count("\ufffd"))
            yield _document(f"{piece.path}#{number}", source, piece.path, kind, found)


def _jsonl(folder: Path, piece: Piece, source: Source) -> Iterator[Document]:
    """Rows whose first byte lies in the piece; a row is named by its byte offset, or by its id field."""
    for offset, line in _lines(folder / piece.path, piece):
        mark = f"{piece.path}#{offset}"
        try:
            row: Any = orjson.loads(line)
            if not isinstance(row, dict):
                raise TypeError
        except (ValueError, TypeError):
            yield _document(mark, source, piece.path, "jsonl", Extracted(error="not a JSON object"))
            continue
        yield _row(row, mark, piece, source, "jsonl")


def _lines(path: Path, piece: Piece) -> Iterator[tuple[int, bytes]]:
    if path.suffix.lower() in (".gz", ".zst"):
        try:
            content = unpack(piece.path, path.read_bytes())
        except ValueError as error:
            raise OSError(0, str(error)) from error
        offset = 0
        for line in content.splitlines(keepends=True):
            yield from ((offset, line),) if line.strip() else ()
            offset += len(line)
        return
    with open(path, "rb") as stream:
        if piece.start:
            stream.seek(piece.start - 1)
            stream.readline()  # the row that begins before the piece belongs to the one before
        offset = stream.tell()
        while piece.end < 0 or offset < piece.end:
            line = stream.readline()
            if not line:
                return
            if line.strip():
                yield offset, line
            offset += len(line)


def _row(row: dict[str, Any], mark: str, piece: Piece, source: Source, kind: str) -> Document:
    text = row.get(source.text_field)
    if row.get("id") is not None:
        mark = f"{piece.path}#{row['id']}"
    if not isinstance(text, str):
        return _document(
            mark, source, piece.path, kind, Extracted(error=f"no text in field {source.text_field!r}")
        )
    found = Extracted(text, title=str(row.get("title") or "")) if text.strip() else Extracted(error="empty")
    return _document(mark, source, piece.path, kind, found)


def _parquet(folder: Path, piece: Piece, source: Source) -> Iterator[Document]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(folder / piece.path)
        group = file.read_row_group(
            piece.start,
            columns=[n for n in file.schema_arrow.names if n in ("id", "title", source.text_field)],
        )
    except (pa.ArrowException, OSError) as error:
        raise OSError(0, "broken") from error
    for number, row in enumerate(group.to_pylist()):
        yield _row(row, f"{piece.path}#{piece.start}.{number}", piece, source, "parquet")


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
        )
        start, number = end, number + 1
