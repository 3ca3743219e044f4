"""Files of rows as streams of tables: JSONL (plain, gz, zst), Parquet, and token files.

A line of JSONL stays the bytes that it is, a document of tokens the tokens: what only changes its place is
not parsed.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.documents import columns
from l3_ylink.datakit.documents.store import write_whole

from .megatron import TokenFile, TokenWriter

LINE = "line"
TOKENS, MASK = "tokens", "mask"
BATCH_BYTES = 16_000_000
BATCH_ROWS = 100_000


def open_lines(path: Path) -> IO[bytes]:
    """A text file for reading, unpacked by its ending."""
    try:
        if path.suffix == ".gz":
            return cast("IO[bytes]", gzip.open(path, "rb"))
        stream = open(path, "rb")  # noqa: SIM115 (the caller closes it)
    except OSError as error:
        raise BadInput("cannot be read", field=str(path), why=error.strerror or "") from error
    if path.suffix != ".zst":
        return stream
    return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(stream, closefd=True))


def lines_of(path: Path) -> Iterator[bytes]:
    """The lines of a file without their ends; empty ones are passed over."""
    with open_lines(path) as stream:
        try:
            for line in stream:
                stripped = line.strip()
                if stripped:
                    yield stripped
        except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
            raise BadInput("is damaged", field=str(path), why=str(error), do="unpack it by hand") from error


def line_tables(paths: Iterable[Path]) -> Iterator[pa.Table]:
    """The lines of JSONL files as tables with the one column `line`."""
    batch: list[bytes] = []
    size = 0
    for path in paths:
        for line in lines_of(path):
            batch.append(line)
            size += len(line)
            if size >= BATCH_BYTES:
                yield columns.table({LINE: batch})
                batch, size = [], 0
    if batch:
        yield columns.table({LINE: batch})


def write_lines(path: Path, tables: Iterable[pa.Table]) -> int:
    """Writes tables of lines; returns how many there were."""
    count = 0

    def write(neighbour: Path) -> None:
        nonlocal count
        with open(neighbour, "wb") as stream:
            for table in tables:
                for batch in table.to_batches(max_chunksize=BATCH_ROWS // 10):
                    stream.writelines(line + b"\n" for line in batch.column(LINE).to_pylist())
                count += table.num_rows

    write_whole(path, write)
    return count


def parquet_tables(paths: Iterable[Path]) -> Iterator[pa.Table]:
    """The rows of Parquet files, some at a time; a `BadInput` where the columns differ."""
    schema = None
    for path in paths:
        try:
            file = pq.ParquetFile(path)
        except (OSError, pa.ArrowException) as error:
            raise BadInput("is not a Parquet file", field=str(path), why=str(error)) from error
        with file:
            schema = schema or file.schema_arrow.remove_metadata()
            if not file.schema_arrow.remove_metadata().equals(schema):
                raise BadInput("has other columns than the files before", field=str(path))
            for batch in file.iter_batches(BATCH_ROWS):
                yield pa.Table.from_batches([batch])


def write_parquet(path: Path, tables: Iterable[pa.Table]) -> int:
    """Writes tables of one schema; returns how many rows there were."""
    count = 0

    def write(neighbour: Path) -> None:
        nonlocal count
        writer = None
        for table in tables:
            writer = writer or pq.ParquetWriter(neighbour, table.schema, compression="zstd")
            writer.write_table(table, BATCH_ROWS)
            count += table.num_rows
        if writer is None:
            raise BadInput("there are no rows", do="look at the input")
        writer.close()

    write_whole(path, write)
    return count


def token_tables(prefixes: Iterable[Path]) -> Iterator[pa.Table]:
    """The documents of token files as binary values, with a column `mask` if any file has one."""
    files = [TokenFile(prefix) for prefix in prefixes]
    masked = any(file.mask is not None for file in files)
    for file in files:
        most = BATCH_BYTES // file.dtype.itemsize
        first = 0
        while first < len(file):
            begin = int(file.offsets[first]) // file.dtype.itemsize
            ends = np.cumsum(file.lengths[first : first + BATCH_ROWS], dtype=np.int64)
            last = first + max(1, int(np.searchsorted(ends, most, side="right")))
            values = {TOKENS: _pieces(file.tokens, file.lengths[first:last], begin)}
            if masked:
                mask = file.mask if file.mask is not None else np.ones(len(file.tokens), np.uint8)
                values[MASK] = _pieces(mask, file.lengths[first:last], begin)
            yield pa.Table.from_arrays(list(values.values()), names=list(values))
            first = last


def _pieces(values: Any, lengths: Any, begin: int) -> pa.Array:
    """Neighbouring pieces of a memory map as an Arrow column, copied once."""
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, dtype=np.int64, out=bounds[1:])
    data = np.array(values[begin : begin + int(bounds[-1])])
    buffers = [None, pa.py_buffer(bounds * data.itemsize), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)


def write_token_tables(prefix: Path, tables: Iterable[pa.Table], dtype: np.dtype[Any]) -> tuple[int, int]:
    """Writes tables of documents as a token file; returns documents and tokens."""
    rest = iter(tables)
    table = next(rest, None)
    masked = table is not None and MASK in table.column_names
    with TokenWriter(prefix, dtype, masked=masked) as writer:
        while table is not None:
            tokens, lengths = _flat(table.column(TOKENS), dtype)
            mask = _flat(table.column(MASK), np.dtype(np.uint8))[0] if masked else None
            writer.write(tokens, lengths, mask)
            table = next(rest, None)
    return writer.documents, writer.tokens


def _flat(column: pa.ChunkedArray, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    array = column.combine_chunks()
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    _, bounds, data = array.buffers()
    bounds = np.frombuffer(bounds, np.int64)[array.offset : array.offset + len(array) + 1]
    values = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]].view(dtype)
    return values, np.diff(bounds) // dtype.itemsize
