"""From an input folder to a fixed list of blocks: the same files give the same blocks, always."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.fileqa.extract import format_of
from l3_ylink.datakit.recipe import Source

PIECE_OVERHEAD = 2_000
"""A file costs at least as much as this many bytes, so that a block never has too many of them."""


class Piece(NamedTuple):
    """A file, or a range of bytes (JSONL) or row groups (Parquet) of one; `end` -1 is the file's end."""

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
    """The files of `folder` by source, cut into blocks; a `BadInput` when there is nothing to read."""
    if not folder.is_dir():
        raise BadInput(
            "is not a folder", field=str(folder), do="give the folder with the documents as --input"
        )
    pieces: list[Piece] = []
    files = unlisted = 0
    for path in sorted(_files(folder), key=str):
        relative = _named(path.relative_to(folder).as_posix())
        source = _source_of(relative, sources)
        if source is None:
            unlisted += 1
            continue
        files += 1
        pieces += _pieces(path, relative, source, block_bytes)
    if not pieces:
        do = "put documents into it" if not unlisted else "check `include` of the recipe's sources"
        raise BadInput(
            "holds no documents for this recipe",
            field=str(folder),
            why=f"{unlisted} files, none named by a source",
            do=do,
        )
    return Listing(list(_cut(pieces, block_bytes)), files, unlisted)


def _files(folder: Path) -> Iterator[Path]:
    root = folder.resolve()
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            inside = not path.is_symlink() or path.resolve().is_relative_to(root)
            if not name.startswith(".") and inside and path.is_file():
                yield path


def _named(relative: str) -> str:
    """The name, which is a document's id later and so must be text."""
    try:
        relative.encode()
    except UnicodeEncodeError as error:
        raise BadInput(
            f"the name of a file is not UTF-8: {os.fsencode(relative)!r}",
            field="input",
            do="rename it, as with `convmv -f gb18030 -t utf-8 -r --notest FOLDER`",
        ) from error
    return relative


def _source_of(relative: str, sources: Sequence[Source]) -> int | None:
    for number, source in enumerate(sources):
        if any(matches(relative, pattern) for pattern in source.include) and not any(
            matches(relative, pattern) for pattern in source.exclude
        ):
            return number
    return None


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


def _pieces(path: Path, relative: str, source: int, block_bytes: int) -> list[Piece]:
    about = path.stat()
    kind = format_of(relative)
    plain = path.suffix.lower() not in (".gz", ".zst")
    whole = Piece(source, relative, about.st_size, about.st_mtime_ns)
    if kind == "parquet" and plain:
        return _row_groups(path, whole)
    if kind != "jsonl" or not plain or about.st_size <= block_bytes:
        return [whole]
    cuts = [*range(0, about.st_size, block_bytes), about.st_size]
    return [whole._replace(bytes=end - start, start=start, end=end) for start, end in pairwise(cuts)]


def _row_groups(path: Path, whole: Piece) -> list[Piece]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        groups = pq.ParquetFile(path).metadata
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
