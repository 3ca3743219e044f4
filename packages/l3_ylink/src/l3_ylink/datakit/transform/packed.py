"""Packed sequences on disk: Parquet with token ids, boundaries, position ids and loss mask.

| column | what |
|---|---|
| `input_ids` | i32, `size` of them: documents in a row, then padding |
| `position_ids` | i32: the place inside the document; padding counts on its own |
| `loss_mask` | u8: 1 where the loss looks; 0 on padding, where the source says so, and on the first token of each document, which nothing of its own comes before |
| `seq_lengths` | i32: how many tokens each document has; attention stays inside them (cumulative sums are `cu_seqlens`) |
"""  # noqa: E501 (a table)

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.documents import columns
from l3_ylink.datakit.documents.store import write_whole

from .megatron import TokenFile
from .packing import Layout, pack

WINDOW = 200_000
"""Documents that are packed together: what bounds the memory."""

AT_ONCE = 4_000_000
"""Tokens that are written at once."""

ENCODINGS = {
    "position_ids.list.element": "DELTA_BINARY_PACKED",
    "input_ids.list.element": "PLAIN",
}
I32 = npt.NDArray[np.int32]


class Packed(NamedTuple):
    """How well it went: sequences, tokens of documents in them, documents, and documents that were cut."""

    sequences: int
    tokens: int
    documents: int
    cut: int
    size: int

    @property
    def fill(self) -> float:
        """Tokens that are no padding, 0 to 1."""
        return self.tokens / (self.sequences * self.size) if self.sequences else 0.0


def write_packed(
    out: Path, prefixes: Sequence[Path], size: int, *, pad: int = 0, seed: int = 0, window: int = WINDOW
) -> Packed:
    """Packs the documents of token files into sequences of `size` tokens, a Parquet file.

    Masks of the files are kept.  `BadInput` when there is nothing to pack.
    """
    done = Packed(0, 0, 0, 0, size)

    def write(neighbour: Path) -> None:
        nonlocal done
        writer = None
        for number, (file, first, last) in enumerate(_windows(prefixes, window)):
            layout = pack(file.lengths[first:last], size, seed + number)
            for table in _tables(file, first, layout, size, pad):
                writer = writer or _writer(neighbour, table.schema)
                writer.write_table(table)
            lengths = file.lengths[first:last].astype(np.int64)
            done = Packed(
                done.sequences + layout.sequences,
                done.tokens + int(lengths.sum()),
                done.documents + len(lengths),
                done.cut + int(np.count_nonzero(lengths > size)),
                size,
            )
        if writer is None:
            raise BadInput("there are no tokens to pack", field="tokens")
        writer.close()

    write_whole(out, write)
    return done


def _writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        use_dictionary=["loss_mask.list.element", "seq_lengths.list.element"],
        column_encoding=ENCODINGS,
    )


def _windows(prefixes: Sequence[Path], window: int) -> Iterator[tuple[TokenFile, int, int]]:
    for prefix in prefixes:
        file = TokenFile(prefix)
        for first in range(0, len(file), window):
            yield file, first, min(first + window, len(file))


def _tables(file: TokenFile, first: int, layout: Layout, size: int, pad: int) -> Iterator[pa.Table]:
    """The sequences of a layout, some at a time."""
    step = max(1, AT_ONCE // size)
    for low in range(0, layout.sequences, step):
        high = min(low + step, layout.sequences)
        begin, end = np.searchsorted(layout.sequence, [low, high]).tolist()
        pieces = [column[begin:end] for column in layout.pieces]
        yield _table(file, first, pieces, layout.sequence[begin:end] - low, high - low, size, pad)


def _table(
    file: TokenFile, first: int, pieces: Sequence[Any], sequence: Any, count: int, size: int, pad: int
) -> pa.Table:
    document, start, length = pieces
    before = np.cumsum(length) - length
    inside = np.arange(int(length.sum())) - np.repeat(before, length)
    source = np.repeat(file.offsets[first + document] // file.dtype.itemsize + start, length) + inside
    in_sequence = before - before[np.searchsorted(sequence, sequence)]
    target = np.repeat(sequence * size + in_sequence, length) + inside
    used = np.bincount(sequence, length, count).astype(np.int64)
    ids = np.full(count * size, pad, np.int32)
    ids[target] = file.tokens[source]
    position = (np.arange(count * size) - np.repeat(np.arange(count) * size + used, size)).astype(np.int32)
    position[target] = inside
    mask = np.zeros(count * size, np.uint8)
    mask[target] = (inside > 0) if file.mask is None else file.mask[source] * (inside > 0)
    bounds = np.arange(count + 1) * size
    spans = np.concatenate([[0], np.cumsum(np.bincount(sequence, minlength=count))])
    values = {
        "input_ids": _lists(ids, bounds),
        "position_ids": _lists(position, bounds),
        "loss_mask": _lists(mask, bounds),
        "seq_lengths": _lists(length.astype(np.int32), spans),
    }
    return pa.Table.from_arrays(list(values.values()), names=list(values))


def _lists(values: npt.NDArray[Any], bounds: npt.NDArray[Any]) -> pa.Array:
    flat = pa.Array.from_buffers(
        pa.uint8() if values.dtype == np.uint8 else pa.int32(), len(values), [None, pa.py_buffer(values)]
    )
    return pa.ListArray.from_arrays(columns.array(bounds.astype(np.int32)), flat)
