"""Many Megatron token files become one, streaming: memory does not grow with documents, tokens or files.

Offsets are 64 bits from the first to the last; holes of sparse files stay holes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.documents.store import write_whole

from .megatron import CHUNK, TokenFile, Tokens, with_suffix, write_index_chunks

MOST_AT_ONCE = 1 << 30

Tell = Callable[[int, int], None]


def merge_tokens(
    prefix: Path, sources: Sequence[Path], tell: Tell = lambda _done, _whole: None
) -> tuple[int, int]:
    """Writes `prefix.bin|idx` from the token files `sources`, in their order; returns documents and tokens.

    A `BadInput` names a source that is damaged, of another token type, or itself the target.
    """
    if not sources:
        raise BadInput("there is nothing to merge", field="sources", do="give token files")
    dtype, sequences, entries, tokens = _checked(prefix, sources)

    with_suffix(prefix, ".idx").unlink(missing_ok=True)
    with_suffix(prefix, ".mask").unlink(missing_ok=True)
    _join(prefix, sources, ".bin", tell)
    if any(TokenFile(source).mask is not None for source in sources):
        _join(prefix, sources, ".mask", lambda _done, _whole: None)
    write_index_chunks(
        with_suffix(prefix, ".idx"),
        dtype,
        sequences,
        entries,
        lambda: _lengths(sources),
        lambda: _documents(sources),
    )
    return entries - 1, tokens


def _join(prefix: Path, sources: Sequence[Path], suffix: str, tell: Tell) -> None:
    def write(neighbour: Path) -> None:
        with open(neighbour, "wb") as target:
            for number, source in enumerate(sources):
                path = with_suffix(source, suffix)
                if path.exists():
                    _append(path, target.fileno())
                else:  # a mask that is not there learns everything
                    _append_ones(TokenFile(source), target.fileno())
                tell(number + 1, len(sources))

    write_whole(with_suffix(prefix, suffix), write)


def _checked(prefix: Path, sources: Sequence[Path]) -> tuple[np.dtype[Any], int, int, int]:
    """Type, sequences, document entries and tokens of all sources together."""
    kind: np.dtype[Any] | None = None
    sequences, entries, tokens = 0, 1, 0
    for source in sources:
        file = TokenFile(source)
        kind = kind or file.dtype
        size = sum(int(chunk.sum(dtype=np.int64)) for chunk in _chunks(file.lengths))
        wrong = ""
        if source.resolve() == prefix.resolve():
            wrong = "is also the target"
        elif file.dtype != kind:
            wrong = f"holds {file.dtype}, the first one {kind}"
        elif file.modes:
            wrong = "has modes (multimodal), which are not merged"
        elif not file.bin.is_file() or file.bin.stat().st_size != size * file.dtype.itemsize:
            wrong = "is damaged: .bin and .idx disagree"
        elif not len(file.documents) or file.documents[0] != 0 or file.documents[-1] != len(file):
            wrong = "has an index whose documents do not cover its sequences"
        if wrong:
            raise BadInput(wrong, field=str(source), do="write it again, or leave it out")
        sequences, entries, tokens = sequences + len(file), entries + len(file.documents) - 1, tokens + size
    assert kind is not None
    return kind, sequences, entries, tokens


def _chunks(values: Tokens) -> Iterator[Tokens]:
    for start, end in pairwise((*range(0, len(values), CHUNK), len(values))):
        yield values[start:end]


def _lengths(sources: Sequence[Path]) -> Iterator[Tokens]:
    for source in sources:
        yield from _chunks(TokenFile(source).lengths)


def _documents(sources: Sequence[Path]) -> Iterator[Tokens]:
    yield np.zeros(1, np.int64)
    before = 0
    for source in sources:
        file = TokenFile(source)
        for chunk in _chunks(file.documents[1:]):
            yield chunk + before
        before += len(file)


def _append(path: Path, target: int) -> None:
    """Appends a file to a descriptor, by the kernel, extent by extent."""
    with open(path, "rb") as stream:
        source = stream.fileno()
        size = os.fstat(source).st_size
        base = os.lseek(target, 0, os.SEEK_END)
        os.ftruncate(target, base + size)
        for start, end in _extents(source, size):
            os.lseek(target, base + start, os.SEEK_SET)
            at = start
            while at < end:
                sent = os.sendfile(target, source, at, min(end - at, MOST_AT_ONCE))
                if not sent:
                    raise OSError(errno.EIO, f"{path.name} became shorter while it was read")
                at += sent


def _append_ones(file: TokenFile, target: int) -> None:
    os.lseek(target, 0, os.SEEK_END)
    for chunk in _chunks(file.tokens):
        os.write(target, b"\1" * len(chunk))


def _extents(source: int, size: int) -> Iterator[tuple[int, int]]:
    """Where a file has data; the whole of it on a file system that cannot tell."""
    at = 0
    while at < size:
        try:
            start = os.lseek(source, at, os.SEEK_DATA)
            at = os.lseek(source, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            start, at = at, size
        yield start, at
