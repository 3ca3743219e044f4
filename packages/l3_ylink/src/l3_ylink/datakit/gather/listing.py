"""From an input folder to a fixed list of blocks: the same files give the same blocks, always."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.recipe import Source

from .formats import format_of, is_packed
from .places import list_files, open_bytes

PIECE_OVERHEAD = 2_000
"""A file costs at least as much as this many bytes, so that a block never has too many of them."""


class Piece(NamedTuple):
    """A file, or a range of its bytes (JSONL, WARC) or row groups (Parquet); `end` -1 is the file's end."""

    source: int
    path: str
    bytes: int
    mtime_ns: int
    start: int = 0
    end: int = -1


class Block(NamedTuple):
    """Pieces that are read, measured and committed as one."""

    number: int
    pieces: tuple[Piece, ...]

    @property
    def bytes(self) -> int:
        """Input bytes of the block."""
        return sum(piece.bytes for piece in self.pieces)


class Listing(NamedTuple):
    """The blocks of an input folder, and how many of its files no source names."""

    blocks: list[Block]
    files: int
    unlisted: int


def list_blocks(folder: Path, sources: Sequence[Source], block_bytes: int) -> Listing:
    """The files of `folder`, and of sources elsewhere, cut into blocks; a `BadInput` when there are none."""
    if not folder.is_dir():
        raise BadInput(
            "is not a folder", field=str(folder), do="give the folder with the documents as --input"
        )
    pieces: list[Piece] = []
    files = unlisted = 0
    here = [(number, source) for number, source in enumerate(sources) if not source.at]
    for file in list_files(folder) if here else ():
        number = next((number for number, source in here if _names(source, file.name)), None)
        if number is None:
            unlisted += 1
            continue
        files += 1
        pieces += _pieces(folder, Piece(number, file.name, file.bytes, file.version), block_bytes)
    for number, source in enumerate(sources):
        for file in list_files(source.at) if source.at else ():
            if _names(source, file.name):
                files += 1
                path = f"{(source.at or '').rstrip('/')}/{file.name}"
                pieces += _pieces(folder, Piece(number, path, file.bytes, file.version), block_bytes)
    if not pieces:
        do = "put documents into it" if not unlisted else "check `include` of the recipe's sources"
        raise BadInput(
            "holds no documents for this recipe",
            field=str(folder),
            why=f"{unlisted} files, none named by a source",
            do=do,
        )
    return Listing(list(_cut(pieces, block_bytes)), files, unlisted)


def _names(source: Source, name: str) -> bool:
    return any(matches(name, pattern) for pattern in source.include) and not any(
        matches(name, pattern) for pattern in source.exclude
    )


def matches(path: str, pattern: str) -> bool:
    """Whether a pattern names a path: `*` stays within a folder, `**` does not, `folder/` means all below."""
    if pattern.endswith("/"):
        pattern += "**"
    return _match(path.split("/"), pattern.split("/"))


def _match(parts: list[str], patterns: list[str]) -> bool:
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return (
            any(_match(parts[skip:], patterns[1:]) for skip in range(len(parts) + 1))
            if patterns[1:]
            else True
        )
    return bool(parts) and fnmatchcase(parts[0], patterns[0]) and _match(parts[1:], patterns[1:])


def _pieces(folder: Path, whole: Piece, block_bytes: int) -> list[Piece]:
    """A file as it is, or in parts where its form lets a part be read by itself."""
    kind = format_of(whole.path)
    packed = is_packed(whole.path)
    if kind == "parquet" and not packed:
        return _row_groups(folder, whole)
    apart = (kind == "jsonl" and not packed) or (kind == "warc" and whole.path.lower().endswith(".gz"))
    if not apart or whole.bytes <= block_bytes:
        return [whole]
    cuts = [*range(0, whole.bytes, block_bytes), whole.bytes]
    return [whole._replace(bytes=end - start, start=start, end=end) for start, end in pairwise(cuts)]


def _row_groups(folder: Path, whole: Piece) -> list[Piece]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open_bytes(folder, whole.path) as stream:
            groups = pq.ParquetFile(stream).metadata
        return [
            whole._replace(bytes=groups.row_group(number).total_byte_size, start=number, end=number + 1)
            for number in range(groups.num_row_groups)
        ]
    except (pa.ArrowInvalid, OSError):
        return [whole]  # the reader will say that it is broken


def _cut(pieces: list[Piece], block_bytes: int) -> Iterator[Block]:
    held: list[Piece] = []
    number = size = 0
    for piece in pieces:
        cost = piece.bytes + PIECE_OVERHEAD
        if held and size + cost > block_bytes:
            yield Block(number, tuple(held))
            number, held, size = number + 1, [], 0
        held.append(piece)
        size += cost
    yield Block(number, tuple(held))
