"""Rows of a delimited file, plain or gzip, whose every error names the file and the line."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import IO

from l2_aistation._kit.problems import BadInput

MOST = 1 << 53


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its cells by column name, and where it stands."""

    path: Path
    line: int
    cells: dict[str, str]

    def text(self, name: str, default: str | None = None) -> str:
        """A cell's text; `BadInput` where it is empty and has no default."""
        value = self.cells.get(name) or default
        if value is None:
            raise self.wrong(name, "is empty")
        return value

    def number(self, name: str, default: float | None = None, *, least: float = 0.0) -> float:
        """A cell's number."""
        cell = self.cells.get(name)
        if not cell and default is not None:
            return default
        try:
            value = float(cell or "")
        except ValueError:
            raise self.wrong(name, f"is no number: {cell!r}") from None
        if not isfinite(value) or not least <= value <= MOST:
            raise self.wrong(name, f"is out of range: {cell}")
        return value

    def whole(self, name: str, default: int | None = None, *, least: int = 0, most: int = MOST) -> int:
        """A cell's whole number."""
        value = self.number(name, default, least=least)
        if value != int(value) or value > most:
            raise self.wrong(name, f"must be a whole number of {most} at most: {value:g}")
        return int(value)

    def wrong(self, name: str, what: str) -> BadInput:
        """The error about a cell of this row."""
        return BadInput(f"{name} {what}", field=f"{self.path}:{self.line}")


def header_of(path: Path, delimiter: str = ",") -> list[str]:
    """The names of the columns."""
    with _reading(path) as stream:
        return [name.strip() for name in next(csv.reader(stream, delimiter=delimiter), [])]


def rows_of(path: Path, delimiter: str = ",") -> Iterator[Row]:
    """The rows as they are read; empty lines are left out."""
    with _reading(path) as stream:
        reader = csv.reader(stream, delimiter=delimiter)
        header = [name.strip() for name in next(reader, [])]
        for number, cells in enumerate(reader, 2):
            if not cells:
                continue
            if len(cells) != len(header):
                raise BadInput(
                    f"has {len(cells)} cells where the header has {len(header)}", field=f"{path}:{number}"
                )
            yield Row(path, number, dict(zip(header, cells, strict=True)))


@contextmanager
def _reading(path: Path) -> Iterator[IO[str]]:
    """The file's text, unpacked; what is wrong with it as `BadInput`."""
    try:
        with open(path, "rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            plain = gzip.GzipFile(fileobj=raw) if packed else raw
            with io.TextIOWrapper(plain, encoding="utf-8-sig", newline="") as stream:
                yield stream
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror or error}", field=str(path)) from error
    except (EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"cannot be read: {error}", field=str(path)) from error
