"""Megatron's indexed token files (`.bin` and `.idx`): written with cumulative sums, read by memory map.

Layout of the index (NVIDIA Megatron-LM, `megatron/core/datasets/indexed_dataset.py`): `MMIDIDX\\0\\0`, u64
version 1, u8 type, u64 sequences, u64 document entries, i32 lengths, i64 byte offsets, i64 document
indices; everything little-endian.  `.bin` holds the tokens, nothing else.  Beside them there may be a
`.mask` of ours, one byte a token: 1 where the loss looks (Megatron ignores it).
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.documents.store import disk, write_whole

MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
TYPES = {
    1: np.uint8,
    2: np.int8,
    3: np.int16,
    4: np.int32,
    5: np.int64,
    6: np.float64,
    7: np.float32,
    8: np.uint16,
}
CODES = {np.dtype(kind): code for code, kind in TYPES.items()}
SMALL_VOCABULARY = 65_500
HEADER = struct.Struct("<9sQBQQ")
LONGEST = 2**31 - 1
"""Tokens of one document: the index holds its length in an i32."""

CHUNK = 1 << 20
"""Documents, or tokens, that are handled at once."""

Tokens = npt.NDArray[np.integer[Any]]
Chunks = Callable[[], Iterator[Tokens]]


def token_type(vocabulary: int) -> np.dtype[Any]:
    """u16 where every token fits, else i32: Megatron's own rule."""
    return np.dtype(np.uint16 if vocabulary < SMALL_VOCABULARY else np.int32)


def write_index(path: Path, lengths: Tokens, dtype: np.dtype[Any]) -> None:
    """Writes the index of documents with these lengths, one sequence each."""
    entries = np.arange(len(lengths) + 1)
    write_index_chunks(
        path, dtype, len(lengths), len(entries), lambda: iter((lengths,)), lambda: iter((entries,))
    )


def write_index_chunks(
    path: Path, dtype: np.dtype[Any], sequences: int, entries: int, lengths: Chunks, documents: Chunks
) -> None:
    """Writes an index from chunks of lengths (asked for twice) and of document entries: memory is bounded."""

    def write(neighbour: Path) -> None:
        with open(neighbour, "wb") as stream:
            stream.write(HEADER.pack(MAGIC, VERSION, CODES[dtype], sequences, entries))
            for chunk in lengths():
                chunk.astype("<i4").tofile(stream)
            at = 0
            for chunk in lengths():
                ends = np.cumsum(chunk, dtype=np.int64)
                ((ends - chunk + at) * dtype.itemsize).astype("<i8").tofile(stream)
                at += int(ends[-1]) if len(ends) else 0
            for chunk in documents():
                chunk.astype("<i8").tofile(stream)

    write_whole(path, write)


class TokenWriter:
    """Writes `prefix.bin`, `prefix.idx` and, if `masked`, `prefix.mask`; they appear when it is closed.

    Memory: 4 bytes a document.  An error inside the `with` block leaves nothing.
    """

    def __init__(self, prefix: Path, dtype: np.dtype[Any], *, masked: bool = False) -> None:
        self.prefix, self.dtype, self.masked = Path(prefix), dtype, masked
        self.tokens = self.documents = 0
        self._lengths: list[npt.NDArray[np.int32]] = []
        self._files = [with_suffix(self.prefix, suffix) for suffix in (".bin", ".mask")[: 1 + masked]]
        self._neighbours = [file.with_name(f".{file.name}.{os.getpid()}.tmp") for file in self._files]
        self._streams: list[BinaryIO] = []

    def __enter__(self) -> Self:
        with disk(self._files[0]):
            self.prefix.parent.mkdir(parents=True, exist_ok=True)
            self._streams = [neighbour.open("wb") for neighbour in self._neighbours]
        return self

    def write(self, tokens: Tokens, lengths: Tokens, mask: Tokens | None = None) -> None:
        """Adds documents: their tokens in a row, how many each has, and which of them are learnt."""
        if len(lengths) and int(lengths.max()) > LONGEST:
            raise BadInput(f"a document has more than {LONGEST} tokens", do="split it")
        limits = np.iinfo(self.dtype)
        if len(tokens) and tokens.dtype != self.dtype and int(tokens.max()) > limits.max:
            raise BadInput(
                f"token {int(tokens.max())} does not fit into {self.dtype}",
                do="give the vocabulary of the tokenizer",
            )
        if tokens.dtype == np.uint32 and self.dtype == np.int32:
            tokens = tokens.view(np.int32)  # what fits is the same bits: nothing to copy
        columns = [np.ascontiguousarray(tokens, self.dtype)]
        if self.masked:
            columns.append(np.ones(len(tokens), np.uint8) if mask is None else np.asarray(mask, np.uint8))
        with disk(self._files[0]):
            for stream, column in zip(self._streams, columns, strict=True):
                stream.write(column.data)
        self._lengths.append(lengths.astype(np.int32))
        self.tokens += len(tokens)
        self.documents += len(lengths)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._commit()
        finally:
            for stream, neighbour in zip(self._streams, self._neighbours, strict=True):
                stream.close()
                neighbour.unlink(missing_ok=True)

    def _commit(self) -> None:
        """The index goes first and comes last: where it is, the rest is whole."""
        index = with_suffix(self.prefix, ".idx")
        index.unlink(missing_ok=True)
        with_suffix(self.prefix, ".mask").unlink(missing_ok=True)
        with disk(index):
            for stream, neighbour, file in zip(self._streams, self._neighbours, self._files, strict=True):
                stream.flush()
                os.fsync(stream.fileno())
                os.replace(neighbour, file)
        write_index(index, np.concatenate([np.zeros(0, np.int32), *self._lengths]), self.dtype)


def with_suffix(prefix: Path, suffix: str) -> Path:
    """`prefix` with a suffix behind its whole name, dots and all."""
    return prefix.with_name(prefix.name + suffix)


def write_tokens(prefix: Path, documents: Iterable[Tokens], *, vocabulary: int) -> tuple[int, int]:
    """Writes `prefix.bin` and `prefix.idx` from documents of tokens; returns documents and tokens."""
    with TokenWriter(prefix, token_type(vocabulary)) as writer:
        for group in _groups(documents):
            lengths = np.fromiter(map(len, group), np.int64, len(group))
            writer.write(np.concatenate(group), lengths)
    return writer.documents, writer.tokens


def _groups(documents: Iterable[Tokens]) -> Iterator[list[Tokens]]:
    group: list[Tokens] = []
    size = 0
    for document in documents:
        group.append(np.asarray(document, np.int64) if not len(document) else np.asarray(document))
        size += len(document) + 1
        if size >= CHUNK:
            yield group
            group, size = [], 0
    if group:
        yield group


class TokenFile:
    """A token file, mapped into memory: `file[i]` is document i, `file.tokens` all tokens in a row."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = Path(prefix)
        path = with_suffix(self.prefix, ".idx")
        data = _mapped(path)
        try:
            magic, version, code, sequences, entries = HEADER.unpack_from(data)
        except struct.error as error:
            raise BadInput("is too short for an index", field=str(path)) from error
        if magic != MAGIC or version != VERSION or code not in TYPES:
            raise BadInput("is not a Megatron index of version 1", field=str(path))
        if len(data) < HEADER.size + 12 * sequences + 8 * entries:
            raise BadInput("is cut short", field=str(path), do="write the data set again")
        self.dtype = np.dtype(TYPES[code])
        at = HEADER.size
        self.lengths = np.frombuffer(data, "<i4", sequences, at)
        self.offsets = np.frombuffer(data, "<i8", sequences, at + 4 * sequences)
        self.documents = np.frombuffer(data, "<i8", entries, at + 12 * sequences)
        self.modes = len(data) > at + 12 * sequences + 8 * entries
        self.bin = with_suffix(self.prefix, ".bin")

    @cached_property
    def tokens(self) -> Tokens:
        """Every token of the file, in order."""
        if not self.bin.stat().st_size:
            return np.zeros(0, self.dtype)
        return np.memmap(self.bin, self.dtype, "r")

    @cached_property
    def mask(self) -> npt.NDArray[np.uint8] | None:
        """For every token 1 where the loss looks; None where all are learnt alike."""
        path = with_suffix(self.prefix, ".mask")
        if not path.exists():
            return None
        if path.stat().st_size != len(self.tokens):
            raise BadInput("is damaged: not one byte a token", field=str(path), do="write the data set again")
        return np.memmap(path, np.uint8, "r") if len(self.tokens) else np.zeros(0, np.uint8)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, number: int) -> Tokens:
        if not 0 <= number < len(self):
            raise IndexError(number)
        return self.tokens[self._span(number)]

    def mask_of(self, number: int) -> npt.NDArray[np.uint8]:
        """Which tokens of a document are learnt: all, in a file without mask."""
        if self.mask is None:
            return np.ones(int(self.lengths[number]), np.uint8)
        return self.mask[self._span(number)]

    def _span(self, number: int) -> slice:
        start = int(self.offsets[number]) // self.dtype.itemsize
        return slice(start, start + int(self.lengths[number]))


def _mapped(path: Path) -> bytes | mmap.mmap:
    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            return mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) if size else b""
    except FileNotFoundError as error:
        raise BadInput(
            "there is no such index", field=str(path), do="give the path without .bin or .idx"
        ) from error
