"""WARC and WET files to documents, any part of a file by itself; damaged records are named and passed over.

A compressed file is a row of gzip members, one for each record: a part of the file begins with the first
member at or after its first byte, and ends with the last one that begins before its end.
"""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from l3_ylink._kit.problems import Unavailable

from .listing import Piece
from .places import open_bytes

LONGEST_RECORD = 64_000_000
CHUNK, PIECE = 1 << 20, 1 << 16
BOMB = "bomb"
MAGIC = b"\x1f\x8b\x08"
TYPES = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "application/pdf": ".pdf",
    "application/epub+zip": ".epub",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
}
"""Content types that are documents, and the ending that such a file would have."""


class Record(NamedTuple):
    """A document's bytes with where they came from; `place` is the record's first byte in the file."""

    place: int
    url: str = ""
    date: str = ""
    ending: str = ".txt"
    body: bytes = b""
    error: str = ""


def warc_records(folder: Path | str, piece: Piece) -> Iterator[Record]:
    """The documents of a part of a WARC or WET file: answers with status 2xx, resources and conversions."""
    _needed()
    with open_bytes(folder, piece.path) as stream:
        if not piece.path.lower().endswith(".gz"):
            yield from _plain(stream)
            return
        place = _member(stream, piece.start, piece.end)
        if place is None and piece.start == 0:
            yield Record(0, error="broken")
        while place is not None:
            place = yield from _run(stream, place, piece.end)


def _needed() -> None:
    try:
        import fastwarc  # noqa: F401
    except ImportError as error:
        raise Unavailable("fastwarc is not installed", do="pip install 'l3-ylink[gather]'") from error


def _plain(stream: BinaryIO) -> Iterator[Record]:
    place = 0
    try:
        for place, found in _iterate(stream):  # noqa: B007 (the last place is told)
            if found is not None:
                yield found
    except OSError:
        yield Record(place, error="broken")


def _run(stream: BinaryIO, place: int, end: int) -> Generator[Record, None, int | None]:
    """Yields documents up to the end or to a damaged member; returns where to go on behind that one.

    A document is held back until the record after it was found: a member that is cut off looks whole.
    """
    held: Record | None = None
    last: int | None = None
    try:
        stream.seek(place)
        for here, found in _iterate(stream):
            if held is not None:
                yield held
            if 0 <= end <= here:
                return None
            if found is not None and found.error == BOMB:  # the iterator cannot go on from within a record
                yield found
                return _member(stream, _next(stream, here) or here + 1, end)
            last, held = here, found
        bad = _cut_at(stream, place if last is None else last)
        again = None
    except OSError:
        after = place if last is None else _next(stream, last)
        bad = last if after is None else after
        again = _member(stream, (bad or 0) + 1, end)
    if held is not None and bad != last:
        yield held
    if bad is not None:
        yield Record(bad, error="broken")
    return again


def _iterate(stream: BinaryIO) -> Iterator[tuple[int, Record | None]]:
    from fastwarc.warc import ArchiveIterator

    for record in ArchiveIterator(stream, parse_http=True, auto_decode="content"):
        yield record.stream_pos, _document(record)


def _document(record: Any) -> Record | None:
    kind = record.headers.get("WARC-Type", "")
    url = record.headers.get("WARC-Target-URI", "").strip("<>")
    about = Record(record.stream_pos, url, record.headers.get("WARC-Date", ""))
    if kind == "response":
        http = record.http_headers
        if http is None or not 200 <= (http.status_code or 0) < 300 or _is_robots(url):
            return None
        ending = TYPES.get((record.http_content_type or "text/html").lower())
    elif kind == "resource":
        ending = TYPES.get(record.headers.get("Content-Type", "").partition(";")[0].strip().lower())
    else:
        ending = ".txt" if kind == "conversion" else None
    if ending is None:
        return None
    if record.headers.get("WARC-Truncated"):
        return about._replace(error="truncated")
    if record.content_length > LONGEST_RECORD:
        return about._replace(error="too long")
    body = _body(record.reader)
    if body is None:
        return about._replace(error=BOMB)
    charset = record.http_charset if kind == "response" else ("utf-8" if kind == "conversion" else None)
    return about._replace(ending=ending, body=_told(body, charset if ending in (".html", ".txt") else None))


def _body(reader: Any) -> bytes | None:
    """A record's body, read by pieces: the reader makes room for as much as it is asked for."""
    pieces, length = [], 0
    while piece := reader.read(PIECE):
        pieces.append(piece)
        length += len(piece)
        if length > LONGEST_RECORD:
            return None
    return b"".join(pieces)


def _is_robots(url: str) -> bool:
    return url.endswith("/robots.txt") and url.count("/") == 3


def _told(body: bytes, charset: str | None) -> bytes:
    """A text in UTF-8 with its mark where the server's word for its encoding holds; else as it came."""
    wide = {"gb2312": "gb18030", "gbk": "gb18030", "big5": "big5hkscs", "iso-8859-1": "cp1252"}
    name = (charset or "").strip().lower()
    try:
        if name and codecs.lookup(wide.get(name, name)).name not in ("utf-8", "cp1252"):
            return codecs.BOM_UTF8 + body.decode(wide.get(name, name)).encode()
    except (LookupError, ValueError):
        pass
    return body


def _member(stream: BinaryIO, start: int, end: int) -> int | None:
    """The first gzip member of a record at or after `start` and before `end` (-1: the file's)."""
    place = start
    held = b""
    while end < 0 or place < end:
        stream.seek(place)
        held = stream.read(CHUNK)
        at = held.find(MAGIC)
        while at >= 0:
            if 0 <= end <= place + at:
                return None
            if _begins_record(stream, place + at):
                return place + at
            at = held.find(MAGIC, at + 1)
        if len(held) < CHUNK:
            return None
        place += len(held) - len(MAGIC) + 1
    return None


def _begins_record(stream: BinaryIO, place: int) -> bool:
    stream.seek(place)
    try:
        return zlib.decompressobj(31).decompress(stream.read(4_096), 5) == b"WARC/"
    except zlib.error:
        return False


def _next(stream: BinaryIO, place: int) -> int | None:
    """Where the member at `place` ends; None when it is damaged or cut off."""
    stream.seek(place)
    inflate = zlib.decompressobj(31)
    read = 0
    while data := stream.read(CHUNK):
        read, chunk = read + len(data), data
        try:
            while inflate.decompress(chunk, CHUNK) or inflate.unconsumed_tail:
                chunk = inflate.unconsumed_tail
        except zlib.error:
            return None
        if inflate.eof:
            return place + read - len(inflate.unused_data)
    return None


def _cut_at(stream: BinaryIO, place: int) -> int | None:
    """The member, from `place` on, in which the file ends too early; None when it ends with a whole one."""
    while True:
        stream.seek(place)
        if not stream.read(1):
            return None
        after = _next(stream, place)
        if after is None:
            return place
        place = after
