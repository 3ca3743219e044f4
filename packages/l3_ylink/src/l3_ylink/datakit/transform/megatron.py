"""Megatron's indexed token files (`.bin` and `.idx`): written with cumulative sums, read by memory map.

Layout of the index (NVIDIA Megatron-LM, `megatron/core/datasets/indexed_dataset.py`): `MMIDIDX\\0\\0`, u64
version 1, u8 type, u64 sequences, u64 document entries, i32 lengths, i64 byte offsets, i64 document
indices; everything little-endian.  `.bin` holds the tokens, nothing else.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.documents.store import write_whole

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


def token_type(vocabulary: int) -> np.dtype[Any]:
    """u16 where every token fits, else i32: Megatron's own rule."""
    return np.dtype(np.uint16 if vocabulary < SMALL_VOCABULARY else np.int32)


def write_index(path: Path, lengths: npt.NDArray[np.integer[Any]], dtype: np.dtype[Any]) -> None:
    """Writes the index of documents with these lengths, one sequence each."""
    lengths = np.asarray(lengths, np.int32)
    offsets = np.zeros(len(lengths), np.int64)
    np.cumsum(lengths[:-1].astype(np.int64) * dtype.itemsize, out=offsets[1:])

    def write(neighbour: Path) -> None:
        with open(neighbour, "wb") as stream:
            stream.write(HEADER.pack(MAGIC, VERSION, CODES[dtype], len(lengths), len(lengths) + 1))
            lengths.astype("<i4").tofile(stream)
            offsets.astype("<i8").tofile(stream)
            np.arange(len(lengths) + 1, dtype="<i8").tofile(stream)

    write_whole(path, write)


def write_tokens(
    prefix: Path, documents: Iterable[npt.NDArray[np.integer[Any]]], *, vocabulary: int
) -> tuple[int, int]:
    """Writes `prefix.bin` and `prefix.idx` from documents of tokens; returns documents and tokens."""
    dtype = token_type(vocabulary)
    lengths: list[int] = []

    def write(neighbour: Path) -> None:
        with open(neighbour, "wb") as stream:
            for document in documents:
                np.asarray(document, dtype).tofile(stream)
                lengths.append(len(document))

    write_whole(prefix.with_suffix(".bin"), write)
    write_index(prefix.with_suffix(".idx"), np.asarray(lengths, np.int64), dtype)
    return len(lengths), sum(lengths)


def join(prefix: Path, parts: list[Path], lengths: list[npt.NDArray[np.int32]], dtype: np.dtype[Any]) -> None:
    """Joins part files of raw tokens into one pair; memory does not grow with the tokens."""

    def write(neighbour: Path) -> None:
        with open(neighbour, "wb") as target:
            for part in parts:
                with open(part, "rb") as source:
                    _copy(source.fileno(), target.fileno(), part.stat().st_size)

    write_whole(prefix.with_suffix(".bin"), write)
    write_index(prefix.with_suffix(".idx"), np.concatenate([np.zeros(0, np.int32), *lengths]), dtype)


def _copy(source: int, target: int, size: int) -> None:
    done = 0
    while done < size:
        sent = os.sendfile(target, source, done, min(size - done, 1 << 30))
        if not sent:
            raise OSError(0, "a part of the token file is shorter than it was")
        done += sent


class TokenFile:
    """A token file, mapped into memory: `file[i]` is document i, `file.tokens` all tokens in a row."""

    def __init__(self, prefix: Path) -> None:
        path = Path(prefix).with_name(Path(prefix).name + ".idx")
        data = path.read_bytes()
        try:
            magic, version, code, sequences, entries = HEADER.unpack_from(data)
        except struct.error as error:
            raise BadInput("is too short for an index", field=str(path)) from error
        if magic != MAGIC or version != VERSION or code not in TYPES:
            raise BadInput("is not a Megatron index of version 1", field=str(path))
        if len(data) < HEADER.size + 12 * sequences + 8 * entries:
            raise BadInput("is cut short", field=str(path), do="write the data set again")
        self.dtype = np.dtype(TYPES[code])
        self.lengths = np.frombuffer(data, "<i4", sequences, HEADER.size)
        self.offsets = np.frombuffer(data, "<i8", sequences, HEADER.size + 4 * sequences)
        self._bin = path.with_suffix(".bin")

    @cached_property
    def tokens(self) -> npt.NDArray[np.integer[Any]]:
        """Every token of the file, in order."""
        if not self._bin.stat().st_size:
            return np.zeros(0, self.dtype)
        return np.memmap(self._bin, self.dtype, "r")

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, number: int) -> npt.NDArray[np.integer[Any]]:
        if not 0 <= number < len(self):
            raise IndexError(number)
        start = int(self.offsets[number]) // self.dtype.itemsize
        return self.tokens[start : start + int(self.lengths[number])]
