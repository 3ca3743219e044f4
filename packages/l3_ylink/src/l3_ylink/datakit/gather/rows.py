"""Files of rows (JSONL, CSV, Parquet) as streams: memory is that of one row, whatever the file's size."""

from __future__ import annotations

import codecs
import csv
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import orjson
import zstandard

from l3_ylink.datakit.fileqa.decode import decode

from .formats import bare, is_packed
from .listing import Piece
from .places import open_bytes, unpacked

LONGEST_ROW = 256_000_000
"""Bytes of a row; a longer one is reported and passed over."""

SAMPLE = 65_536
AT_ONCE = 1_000
BROKEN = (EOFError, zlib.error, zstandard.ZstdError, OSError)


class Row(NamedTuple):
    """A row by its place in the file: its fields, or the reason why there are none."""

    place: str
    fields: dict[str, Any]
    error: str = ""


def jsonl_rows(folder: Path | str, piece: Piece) -> Iterator[Row]:
    """Rows whose first byte lies in the piece, named by their byte offset in the (unpacked) file."""
    with open_bytes(folder, piece.path) as raw:
        stream = unpacked(raw, piece.path)
        offset = 0
        if piece.start and not is_packed(piece.path):
            stream.seek(piece.start - 1)
            offset = piece.start - 1 + len(_line(stream)[0])  # it belongs to the piece before
        while piece.end < 0 or offset < piece.end:
            try:
                line, length = _measured(stream)
            except BROKEN:
                yield Row(str(offset), {}, "broken")
                return
            if not length:
                return
            if line is None:
                yield Row(str(offset), {}, "row too long")
            elif line.strip():
                yield _json(line, str(offset))
            offset += length


def _line(stream: BinaryIO) -> tuple[bytes, bool]:
    line = stream.readline(LONGEST_ROW)
    return line, line.endswith(b"\n")


def _measured(stream: BinaryIO) -> tuple[bytes | None, int]:
    """The next line and its length; None in place of one that is too long."""
    line, whole = _line(stream)
    length = len(line)
    if whole or length < LONGEST_ROW:
        return line, length
    while line and not whole:
        line, whole = _line(stream)
        length += len(line)
    return None, length


def _json(line: bytes, place: str) -> Row:
    try:
        value: Any = orjson.loads(line)
    except ValueError:
        value = _other_encoding(line)
    if not isinstance(value, dict):
        return Row(place, {}, "not a JSON object")
    return Row(place, value)


def _other_encoding(line: bytes) -> Any:
    """A row in GB18030, Big5 and so on; None where it is no JSON in any encoding."""
    try:
        line.decode()
        return None
    except UnicodeDecodeError:
        pass
    try:
        return orjson.loads(decode(line).text)
    except ValueError:
        return None


def csv_rows(folder: Path | str, piece: Piece) -> Iterator[Row]:
    """Rows of a CSV file (RFC 4180) with a header, named by the line they end on.

    The encoding is judged by the beginning; the separator is the tab in .tsv, else what the header is cut by.
    """
    csv.field_size_limit(LONGEST_ROW)
    with open_bytes(folder, piece.path) as raw:
        stream = unpacked(raw, piece.path)
        try:
            sample = stream.read(SAMPLE)
        except BROKEN:
            yield Row("1", {}, "broken")
            return
        encoding = _encoding(sample)
        joined = io.BufferedReader(_Rejoined(sample, stream))
        text = io.TextIOWrapper(joined, encoding, errors="replace", newline="\n")
        tab = bare(piece.path).suffix == ".tsv"
        header = sample.partition(b"\n")[0].decode(encoding, "replace")
        reader = csv.reader(_lines(text), delimiter="\t" if tab else _separator(header), strict=True)
        yield from _csv(reader)


def _csv(reader: Any) -> Iterator[Row]:
    names: list[str] | None = None
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield Row(str(reader.line_num), {}, f"not CSV: {error}")
            if "limit" in str(error) or "end of data" in str(error):
                return
            continue
        except BROKEN:
            yield Row(str(reader.line_num + 1), {}, "broken")
            return
        if names is None:
            names = [cell.strip() for cell in cells]
        elif cells and len(cells) != len(names):
            yield Row(str(reader.line_num), {}, f"{len(cells)} fields where the header has {len(names)}")
        elif cells:
            yield Row(str(reader.line_num), dict(zip(names, cells, strict=True)))


class _Rejoined(io.RawIOBase):
    """A stream with its sample put back in front."""

    def __init__(self, sample: bytes, rest: BinaryIO) -> None:
        self.sample, self.rest = io.BytesIO(sample), rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.sample.read(len(buffer)) or self.rest.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    """Lines by line feeds alone: a field may hold other separators; NUL is no character of a text."""
    while line := text.readline(LONGEST_ROW):
        yield line.replace("\0", "")


def _encoding(sample: bytes) -> str:
    """The encoding, where the sample may end within a character."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
        return "utf-8-sig"
    except UnicodeDecodeError:
        return decode(sample[: sample.rfind(b"\n") + 1] or sample).encoding


def _separator(header: str) -> str:
    return max(",;\t|", key=header.count) if any(mark in header for mark in ",;\t|") else ","


def parquet_rows(folder: Path | str, piece: Piece, names: set[str]) -> Iterator[Row]:
    """The rows of one row group, some at a time, with the columns that are asked for."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with open_bytes(folder, piece.path) as stream, pq.ParquetFile(stream) as file:
            columns = [name for name in file.schema_arrow.names if name in names]
            for batch in file.iter_batches(AT_ONCE, row_groups=[piece.start], columns=columns):
                for row in batch.to_pylist():
                    yield Row(f"{piece.start}.{number}", row)
                    number += 1
    except (pa.ArrowException, OSError):
        yield Row(f"{piece.start}.{number}", {}, "broken")
