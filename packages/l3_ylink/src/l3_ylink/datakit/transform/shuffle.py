"""A shuffle of any size in bounded memory, the same for any amount of it.

Each row has a random 64-bit key, a function of the seed and the row's number; the result is the rows in
the order of their keys.  Rows go first into files by the leading bits of their key; then each file, which
fits into memory, is sorted.  One that does not fit is divided again by the bits that follow.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from l3_ylink.datakit.documents import columns

from .order import row_keys

MEMORY = 256_000_000
FAN_OUT = 8
"""Leading bits by which rows are divided: 256 files."""

KEY = "__key"


def shuffled(
    tables: Iterable[pa.Table], seed: int, scratch: Path, *, memory: int = MEMORY, fan_out: int = FAN_OUT
) -> Iterator[pa.Table]:
    """The rows of all tables in random order, some at a time.

    Temporary files, as large as the input, lie below `scratch`.  Rows that have equal keys, which 2^64 keys
    make unlikely, stay in the order of the input.
    """
    with tempfile.TemporaryDirectory(prefix=".shuffle-", dir=scratch) as folder:
        yield from _sorted(_with_keys(tables, seed), Path(folder), 64, memory, fan_out)


def _with_keys(tables: Iterable[pa.Table], seed: int) -> Iterator[pa.Table]:
    first = 0
    for table in tables:
        if not table.num_rows:
            continue
        keys = row_keys(first, table.num_rows, seed).view(np.int64)
        yield table.append_column(KEY, columns.array(keys))
        first += table.num_rows


def _sorted(
    tables: Iterable[pa.Table], folder: Path, bits: int, memory: int, fan_out: int
) -> Iterator[pa.Table]:
    """Rows whose keys are equal above the last `bits` bits, in the order of their keys."""
    held: list[pa.Table] = []
    size = 0
    rest = iter(tables)
    for table in rest:
        held.append(table)
        size += table.nbytes
        if size > memory and bits >= fan_out and sum(part.num_rows for part in held) > 1:
            break
    else:
        if held:
            yield _in_order(pa.concat_tables(held))
        return
    files = _divided(chain(held, rest), folder, bits, fan_out)
    held.clear()
    for path in files:
        inner = path.with_suffix("")
        inner.mkdir()
        yield from _sorted(_read(path), inner, bits - fan_out, memory, fan_out)
        path.unlink(missing_ok=True)


def _in_order(table: pa.Table) -> pa.Table:
    order = np.argsort(_keys(table), kind="stable")
    return table.drop_columns([KEY]).take(columns.array(order))


def _keys(table: pa.Table) -> npt.NDArray[np.uint64]:
    keys: npt.NDArray[Any] = columns.plain(table.column(KEY))
    return keys.view(np.uint64)


def _divided(tables: Iterable[pa.Table], folder: Path, bits: int, fan_out: int) -> list[Path]:
    """Writes rows into files by the first `fan_out` of the last `bits` bits of their keys."""
    writers: dict[int, Any] = {}
    with ExitStack() as stack:
        for table in tables:
            part = (_keys(table) >> np.uint64(bits - fan_out)) & np.uint64((1 << fan_out) - 1)
            order = np.argsort(part, kind="stable")
            found, starts = np.unique(part[order], return_index=True)
            grouped = table.take(columns.array(order))
            for number, (start, end) in zip(found.tolist(), pairwise([*starts, len(part)]), strict=True):
                if number not in writers:
                    path = folder / f"{number:04d}.arrow"
                    writers[number] = stack.enter_context(pa.ipc.new_stream(str(path), table.schema))
                writers[number].write_table(grouped.slice(start, end - start))
    return [folder / f"{number:04d}.arrow" for number in sorted(writers)]


def _read(path: Path) -> Iterator[pa.Table]:
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
        for batch in reader:
            yield pa.Table.from_batches([batch])
