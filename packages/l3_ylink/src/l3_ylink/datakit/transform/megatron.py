"""Megatron's indexed token files (`.bin` and `.idx`): written with cumulative sums, read by memory map.

Layout of the index (NVIDIA Megatron-LM, `megatron/core/datasets/indexed_dataset.py`): `MMIDIDX\\0\\0`, u64
version 1, u8 type, u64 sequences, u64 document entries, i32 lengths, i64 byte offsets, i64 document
indices; everything little-endian.  `.bin` holds the tokens, nothing else.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

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
    """Writes `prefix.bin` and `prefix.idx` from runs of documents; both appear when it is closed.

    Memory: 4 bytes a document.  An error inside the `with` block leaves nothing.
    """

    def __init__(self, prefix: Path, dtype: np.dtype[Any]) -> None:
        self.prefix, self.dtype = Path(prefix), dtype
        self.tokens = self.documents = 0
        self._lengths: list[npt.NDArray[np.int32]] = []
        self._bin = with_suffix(self.prefix, ".bin")
        self._neighbour = self._bin.with_name(f".{self._bin.name}.{os.getpid()}.tmp")

    def __enter__(self) -> Self:
        with disk(self._bin):
            self._bin.parent.mkdir(parents=True, exist_ok=True)
            self._stream = open(self._neighbour, "wb")
        return self

    def write(self, tokens: Tokens, lengths: Tokens) -> None:
        """Adds documents: their tokens in a row, and how many each has."""
        if len(lengths) and int(lengths.max()) > LONGEST:
            raise BadInput(f"a document has more than {LONGEST} tokens", do="split it")
        limits = np.iinfo(self.dtype)
        if len(tokens) and tokens.dtype != self.dtype and int(tokens.max()) > limits.max:
            raise BadInput(
                f"token {int(tokens.max())} does not fit into {self.dtype}",
                do="give the tokenizer's vocabulary",
            )
        with disk(self._bin):
            self._stream.write(np.ascontiguousarray(tokens, self.dtype).data)
        self._lengths.append(lengths.astype(np.int32))
        self.tokens += len(tokens)
        self.documents += len(lengths)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                with disk(self._bin):
                    os.fsync(self._stream.fileno())
                lengths = np.concatenate([np.zeros(0, np.int32), *self._lengths])
                with_suffix(self.prefix, ".idx").unlink(missing_ok=True)
                with disk(self._bin):
                    os.replace(self._neighbour, self._bin)
                write_index(with_suffix(self.prefix, ".idx"), lengths, self.dtype)
        finally:
            self._stream.close()
            self._neighbour.unlink(missing_ok=True)


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

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, number: int) -> Tokens:
        if not 0 <= number < len(self):
            raise IndexError(number)
        start = int(self.offsets[number]) // self.dtype.itemsize
        return self.tokens[start : start + int(self.lengths[number])]


def _mapped(path: Path) -> bytes | mmap.mmap:
    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            return mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) if size else b""
    except FileNotFoundError as error:
        raise BadInput(
            "there is no such index", field=str(path), do="give the path without .bin or .idx"
        ) from error
