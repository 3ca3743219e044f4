"""Columns between NumPy or lists and Arrow, by their buffers.

`pyarrow.array` asks first whether its argument is of pandas, and imports pandas for that where it is
installed: half a second in every worker.  Buffers need no question.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

TYPES = {
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
}


def table(columns: Mapping[str, Any]) -> pa.Table:
    """A table of NumPy arrays and of lists of str, bytes, int, float or bool."""
    arrays = [array(values) for values in columns.values()]
    return pa.Table.from_arrays(arrays, names=list(columns))


def read(path: Path, names: list[str] | None = None) -> pa.Table:
    """Some columns of a Parquet file, or all (`pyarrow.parquet.read_table` imports pandas too)."""
    with pq.ParquetFile(path) as file:
        return file.read(columns=names, use_threads=False)


def array(values: Any) -> pa.Array:
    """One column; an empty list is a column of no strings."""
    if isinstance(values, np.ndarray):
        return _numbers(values)
    first = values[0] if values else ""
    if isinstance(first, str):
        return strings(values)
    if isinstance(first, bytes):
        return _pieces(values, pa.large_binary())
    return _numbers(np.asarray(values))


def strings(values: Sequence[str | None]) -> pa.Array:
    """A column of strings; None is null.  Lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
    pieces = [None if value is None else _utf_8(value) for value in values]
    return _pieces(pieces, pa.large_string())


def _utf_8(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def plain(column: pa.ChunkedArray) -> Any:
    """A column without nulls as a NumPy array if it holds numbers or truth values, else as a list."""
    truth = pa.types.is_boolean(column.type)
    if not truth and column.type not in TYPES.values():
        return column.to_pylist()
    parts = [_truth(chunk) if truth else _values(chunk) for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.zeros(0, bool if truth else column.type.to_pandas_dtype())


def _values(chunk: pa.Array) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = np.frombuffer(chunk.buffers()[1], str(chunk.type).replace("double", "float64"))
    return values[chunk.offset : chunk.offset + len(chunk)]


def _truth(chunk: pa.Array) -> npt.NDArray[np.bool_]:
    bits = np.unpackbits(np.frombuffer(chunk.buffers()[1], np.uint8), bitorder="little")
    return bits[chunk.offset : chunk.offset + len(chunk)].astype(bool)


def numbers_or_null(values: npt.NDArray[np.float64]) -> pa.Array:
    """A column of floats in which NaN is null."""
    return pa.Array.from_buffers(
        pa.float64(), len(values), [_bits(~np.isnan(values)), pa.py_buffer(np.ascontiguousarray(values))]
    )


def _pieces(values: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    lengths = np.fromiter((len(value or b"") for value in values), np.int64, len(values))
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    valid = None
    if any(value is None for value in values):
        valid = _bits(value is not None for value in values)
    data = b"".join(value or b"" for value in values)
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(offsets), pa.py_buffer(data)])


def _numbers(values: npt.NDArray[Any]) -> pa.Array:
    if values.dtype == bool:
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])
    kind = TYPES[values.dtype.name]
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def _bits(values: Iterable[Any]) -> pa.Buffer:
    flags = np.asarray(values if isinstance(values, np.ndarray) else list(values), bool)
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
