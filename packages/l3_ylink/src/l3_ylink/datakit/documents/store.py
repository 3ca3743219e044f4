"""Blocks on disk: a Parquet file with texts and signals, and beside it a manifest that commits it.

A block without its manifest, or with another key, does not exist.  The manifest is written last, and each
file appears whole or not at all, so that a run killed at any point goes on where it was.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from l3_ylink._kit.documents import digest_of, digest_of_file
from l3_ylink._kit.files import atomic_write
from l3_ylink._kit.problems import BadInput, Conflict, Failed

from .columns import array, plain, read
from .columns import table as columns_to_table

TEXT = "text"
FEW = 3
TEXT_BYTES = "text_bytes"
AGAIN = "run the same recipe again: it goes on where it was"


class Committed(NamedTuple):
    """What the manifest of a part of a block says; `last`: no part of this block comes after it."""

    number: int
    part: int
    key: str
    rows: int
    sha256: str
    bytes: int
    last: bool


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


def write_groups(path: Path, schema: pa.Schema, groups: Iterable[pa.Table]) -> None:
    """Writes a Parquet file table by table, one row group each, whole or not at all."""

    def write(neighbour: Path) -> None:
        with pq.ParquetWriter(neighbour, schema, compression="zstd") as writer:
            for table in groups:
                writer.write_table(table, row_group_size=max(table.num_rows, 1))

    write_whole(path, write)


def sweep(folder: Path) -> None:
    """Takes away what a killed writer left."""
    for path in folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)


class BlockStore:
    """The blocks of one run, in one folder.  A block is committed in parts of bounded size."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def data(self, number: int, part: int = 0) -> Path:
        """The Parquet file of a part."""
        return self.folder / f"block-{number:06d}-{part:04d}.parquet"

    def manifest(self, number: int, part: int = 0) -> Path:
        """The file that commits a part."""
        return self.folder / f"block-{number:06d}-{part:04d}.json"

    def commit(self, number: int, part: int, key: str, columns: dict[str, Any], *, last: bool) -> Committed:
        """Writes a part of a block and then its manifest."""
        path = self.data(number, part)
        key = self._key_with_skips(number, key)
        table = _with_sizes(columns_to_table(columns))
        write_whole(
            path, lambda neighbour: pq.write_table(table, neighbour, compression="zstd", compression_level=1)
        )
        committed = Committed(
            number, part, key, table.num_rows, digest_of_file(path), path.stat().st_size, last
        )
        with disk(path):
            atomic_write(self.manifest(number, part), json.dumps(committed._asdict()))
        return committed

    def committed(self, number: int, key: str) -> list[Committed]:
        """The parts of a block, from its first on, that are whole and were made with this key."""
        found: list[Committed] = []
        key = self._key_with_skips(number, key)
        while not (found and found[-1].last):
            part = self._part(number, len(found))
            if part is None or part.key != key or not self._intact(part):
                return found
            found.append(part)
        return found

    def _part(self, number: int, part: int) -> Committed | None:
        try:
            return Committed(**json.loads(self.manifest(number, part).read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def _intact(self, part: Committed) -> bool:
        path = self.data(part.number, part.part)
        try:
            return path.stat().st_size == part.bytes and digest_of_file(path) == part.sha256
        except OSError:
            return False

    def skipped(self, number: int, key: str, more: frozenset[str] = frozenset()) -> frozenset[str]:
        """Files of a block that are passed over, with some more noted for good."""
        path = self.folder / f"skipped-{number:06d}.json"
        try:
            about = json.loads(path.read_bytes())
            known = frozenset(about["paths"]) if about["key"] == key else frozenset()
        except (OSError, ValueError, LookupError, TypeError):
            known = frozenset()
        if more - known:
            with disk(path):
                atomic_write(path, json.dumps({"key": key, "paths": sorted(known | more)}))
        return known | more

    def _key_with_skips(self, number: int, key: str) -> str:
        skips = self.skipped(number, key)
        return digest_of({"key": key, "skipped": sorted(skips)})[7:39] if skips else key

    def whole(self, number: int) -> list[Committed]:
        """The parts of a finished block; `Conflict` where one is missing."""
        found: list[Committed] = []
        while not (found and found[-1].last):
            part = self._part(number, len(found))
            if part is None:
                name = self.manifest(number, len(found)).name
                raise Conflict("the run is not finished", why=f"{name} is missing", do=AGAIN)
            found.append(part)
        return found

    def drop_parts_after(self, number: int, count: int) -> None:
        """Removes parts of a block beyond its last one, left from another attempt."""
        part = count
        while self.manifest(number, part).exists():
            self.manifest(number, part).unlink()
            self.data(number, part).unlink(missing_ok=True)
            part += 1

    def drop_after(self, count: int) -> None:
        """Removes blocks beyond the last one, left from a run over more files."""
        for path in self.folder.glob("block-*.json"):
            if int(path.stem.split("-")[1]) >= count:
                path.unlink()
                path.with_suffix(".parquet").unlink(missing_ok=True)


def _with_sizes(table: pa.Table) -> pa.Table:
    """The table with the UTF-8 bytes of each text."""
    return table.append_column(TEXT_BYTES, pc.cast(pc.binary_length(table.column(TEXT)), pa.int64()))


class LazyColumns(Mapping[str, Any]):
    """The columns of one stored block, read when the first is asked for and unpacked one by one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = pq.ParquetFile(path)
        except FileNotFoundError as error:
            raise Conflict("the run is not finished", why=f"{path.name} is missing", do=AGAIN) from error
        except pa.ArrowException as error:
            raise BadInput("is damaged", field=str(path), why=str(error), do=AGAIN) from error
        self._names = [name for name in self._file.schema_arrow.names if name != TEXT]
        self._table: pa.Table | None = None
        self._read: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._read:
            if name not in self._names:
                raise KeyError(name)
            self._read[name] = plain(self._stored(name))
        return self._read[name]

    def _stored(self, name: str) -> pa.ChunkedArray:
        """A column; from the fourth on all are read at once, which takes less than one by one."""
        try:
            if self._table is None and len(self._read) < FEW:
                return self._file.read(columns=[name], use_threads=False).column(0)
            if self._table is None:
                self._table = self._file.read(columns=self._names, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise BadInput("is damaged", field=str(self._path), why=str(error), do=AGAIN) from error
        return self._table.column(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names


class Signals:
    """The stored blocks of a run, numbered on: columns and texts are read block by block.

    `blocks`: the parts as they were committed; `first[n]`: the row of the run at which block n begins,
    with one more entry for the end.
    """

    def __init__(self, store: BlockStore, blocks: int) -> None:
        self.store = store
        self.blocks = [part for number in range(blocks) for part in store.whole(number)]
        self.first = np.concatenate([[0], np.cumsum([part.rows for part in self.blocks])]).astype(np.int64)

    def __len__(self) -> int:
        return int(self.first[-1])

    def path(self, number: int) -> Path:
        """The Parquet file of a stored block."""
        part = self.blocks[number]
        return self.store.data(part.number, part.part)

    def columns(self, number: int) -> LazyColumns:
        """The columns of a stored block."""
        return LazyColumns(self.path(number))

    def rows(self, number: int) -> int:
        """How many documents a stored block holds."""
        return self.blocks[number].rows

    def block_of(self, row: int) -> int:
        """The stored block that holds a row of the run."""
        return int(np.searchsorted(self.first, row, side="right")) - 1

    def block_texts(self, number: int, rows: Sequence[int] | None = None) -> list[str]:
        """The texts of a block as they were measured, or of some of its rows."""
        column = read(self.path(number), [TEXT]).column(0)
        if rows is not None:
            column = column.take(array(np.asarray(rows, np.int64)))
        texts: list[str] = column.to_pylist()
        return texts

    def texts(self, rows: Sequence[int]) -> dict[int, str]:
        """The measured texts of some rows of the run; each block is read once."""
        found: dict[int, str] = {}
        wanted = np.unique(np.asarray(rows, np.int64))
        blocks = np.searchsorted(self.first, wanted, side="right") - 1
        for number in np.unique(blocks).tolist():
            mine = wanted[blocks == number]
            texts = self.block_texts(number, (mine - self.first[number]).tolist())
            found.update(zip(mine.tolist(), texts, strict=True))
        return found
