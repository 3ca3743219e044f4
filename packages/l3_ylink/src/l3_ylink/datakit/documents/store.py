"""Blocks on disk: a Parquet file with texts and signals, and beside it a manifest that commits it.

A block without its manifest, or with another key, does not exist.  The manifest is written last, and each
file appears whole or not at all, so that a run killed at any point goes on where it was.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from l3_ylink._kit.documents import digest_of_file
from l3_ylink._kit.files import atomic_write
from l3_ylink._kit.problems import BadInput, Conflict, Failed

from .columns import array, plain, read
from .columns import table as columns_to_table

TEXT = "text"
AGAIN = "run the same recipe again: it goes on where it was"


class Committed(NamedTuple):
    """What a block's manifest says."""

    number: int
    key: str
    rows: int
    sha256: str
    bytes: int


@contextmanager
def disk(path: Path) -> Iterator[None]:
    """A full disk or a lost permission becomes a clear problem; nothing half-written stays."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Failed(
                f"no space left while writing {path.name}",
                do="free some space and run the same command again",
            ) from error
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise Failed(
                f"cannot write {path}", why=error.strerror or "", do="choose another --out"
            ) from error
        raise


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Lets `write` fill a neighbour file, then puts it in place: whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    neighbour = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with disk(path):
            write(neighbour)
            with open(neighbour, "rb+") as stream:
                os.fsync(stream.fileno())
            os.replace(neighbour, path)
    finally:
        neighbour.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Takes away what a killed writer left."""
    for path in folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)


class BlockStore:
    """The blocks of one run, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def data(self, number: int) -> Path:
        """The Parquet file of a block."""
        return self.folder / f"block-{number:06d}.parquet"

    def manifest(self, number: int) -> Path:
        """The file that commits a block."""
        return self.folder / f"block-{number:06d}.json"

    def commit(self, number: int, key: str, columns: dict[str, Any]) -> Committed:
        """Writes a block and then its manifest."""
        path = self.data(number)
        table = columns_to_table(columns)
        write_whole(
            path, lambda neighbour: pq.write_table(table, neighbour, compression="zstd", compression_level=1)
        )
        committed = Committed(number, key, table.num_rows, digest_of_file(path), path.stat().st_size)
        with disk(path):
            atomic_write(self.manifest(number), json.dumps(committed._asdict()))
        return committed

    def committed(self, number: int, key: str) -> Committed | None:
        """The manifest of a block that is whole and was made with this key, else None."""
        try:
            found = Committed(**json.loads(self.manifest(number).read_bytes()))
            intact = found.key == key and self.data(number).stat().st_size == found.bytes
            return found if intact and digest_of_file(self.data(number)) == found.sha256 else None
        except (OSError, ValueError, TypeError):
            return None

    def drop_after(self, count: int) -> None:
        """Removes blocks beyond the last one, left from a run over more files."""
        for path in self.folder.glob("block-*.json"):
            if int(path.stem.removeprefix("block-")) >= count:
                path.unlink()
                path.with_suffix(".parquet").unlink(missing_ok=True)


class Signals:
    """The stored columns of all blocks of a run; texts are read only when asked for."""

    def __init__(self, store: BlockStore, blocks: int) -> None:
        self.store = store
        tables = [_stored(store.data(number)) for number in range(blocks)]
        self.first = np.concatenate([[0], np.cumsum([table.num_rows for table in tables])]).astype(np.int64)
        joined = pa.concat_tables(tables)
        self.columns: dict[str, Any] = {name: plain(joined.column(name)) for name in joined.column_names}

    def __len__(self) -> int:
        return int(self.first[-1])

    def block_rows(self, number: int) -> range:
        """The rows of a block."""
        return range(int(self.first[number]), int(self.first[number + 1]))

    def block_texts(self, number: int) -> list[str]:
        """All texts of a block."""
        texts: list[str] = read(self.store.data(number), [TEXT]).column(0).to_pylist()
        return texts

    def texts(self, rows: Sequence[int]) -> dict[int, str]:
        """The texts of some rows; each block is read once."""
        found: dict[int, str] = {}
        wanted = sorted(rows)
        blocks = np.searchsorted(self.first, wanted, side="right") - 1
        for number in sorted(set(blocks.tolist())):
            mine = [row for row, block in zip(wanted, blocks.tolist(), strict=True) if block == number]
            column = read(self.store.data(number), [TEXT]).column(0)
            taken = column.take(array(np.asarray(mine, np.int64) - self.first[number]))
            found.update(zip(mine, taken.to_pylist(), strict=True))
        return found


def _stored(path: Path) -> pa.Table:
    """A block without its texts."""
    try:
        return read(path, [name for name in pq.read_schema(path).names if name != TEXT])
    except FileNotFoundError as error:
        raise Conflict("the run is not finished", why=f"{path.name} is missing", do=AGAIN) from error
    except pa.ArrowException as error:
        raise BadInput("is damaged", field=str(path), why=str(error), do=AGAIN) from error
