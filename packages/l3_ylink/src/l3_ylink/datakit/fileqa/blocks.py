"""A file as blocks of text, each with the way back to its place in the file.

Positions count Unicode characters (code points).  Boxes are (left, top, right, bottom) in points of 1/72 inch
from the top left corner of the page as it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

Kind = Literal["heading", "paragraph", "list", "code", "table", "contents", "note"]
Box = tuple[float, float, float, float]


class Span(NamedTuple):
    """Where the characters `start` to `end` of a text come from.

    `page` counts pages, slides or sheets from 1.  `part` names what has no page: a chapter of an EPUB, a
    paragraph of a DOCX, a cell of a sheet.  `chars` are the first character and the one after the last, in
    the order that the file holds them: on the page for PDF, in the part for other formats.
    """

    start: int
    end: int
    page: int | None = None
    box: Box | None = None
    part: str = ""
    chars: tuple[int, int] | None = None

    def moved(self, by: int) -> Span:
        """The same place for a text that starts `by` characters later."""
        return self._replace(start=self.start + by, end=self.end + by)

    def as_json(self) -> dict[str, Any]:
        """The members that say something."""
        return {name: value for name, value in self._asdict().items() if value not in (None, "")}


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table; one that spans rows or columns stands in the first of them."""

    text: str
    spans: tuple[Span, ...] = ()
    columns: int = 1
    rows: int = 1

    def as_json(self) -> dict[str, Any]:
        """The cell for JSON; how many rows and columns it spans only where it is more than one."""
        members: dict[str, Any] = {"text": self.text, "spans": [span.as_json() for span in self.spans]}
        if self.columns > 1:
            members["columns"] = self.columns
        if self.rows > 1:
            members["rows"] = self.rows
        return members


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; the first `header` rows name the columns."""

    rows: tuple[tuple[Cell, ...], ...]
    header: int = 1

    def grid(self) -> list[list[str]]:
        """The texts by row and column; a cell over several places has its text in the first of them."""
        height = len(self.rows)
        taken: dict[tuple[int, int], str] = {}
        for y, row in enumerate(self.rows):
            x = 0
            for cell in row:
                while (y, x) in taken:
                    x += 1
                for down in range(min(cell.rows, height - y)):
                    for right in range(cell.columns):
                        taken[y + down, x + right] = "" if down or right else cell.text
                x += cell.columns
        width = max((x for _, x in taken), default=-1) + 1
        return [[taken.get((y, x), "") for x in range(width)] for y in range(height)]


@dataclass(frozen=True, slots=True)
class Block:
    """A heading, paragraph, list item, piece of code or table.

    `level`: of a heading from 1 to 6, of a list item from 1.  `marker`: what stood before a list item.
    `spans` are in order and lie in `text`; a table has them in its cells.
    """

    kind: Kind
    text: str
    spans: tuple[Span, ...] = ()
    level: int = 0
    marker: str = ""
    table: Table | None = None

    def as_json(self) -> dict[str, Any]:
        """The block for JSON; the cells of a table carry the spans."""
        members: dict[str, Any] = {"kind": self.kind, "text": self.text}
        if self.level:
            members["level"] = self.level
        if self.marker:
            members["marker"] = self.marker
        if self.table is None:
            return {**members, "spans": [span.as_json() for span in self.spans]}
        rows = [[cell.as_json() for cell in row] for row in self.table.rows]
        return {**members, "header": self.table.header, "rows": rows}

    def pages(self) -> list[int]:
        """The pages that the block stands on."""
        cells = [cell.spans for row in self.table.rows for cell in row] if self.table else []
        found = {span.page for spans in (self.spans, *cells) for span in spans if span.page is not None}
        return sorted(found)


class Skipped(NamedTuple):
    """A page or part that could not be read, and why: time, memory, broken, no_text."""

    page: int | None
    reason: str
    part: str = ""


class Title(NamedTuple):
    """The title that a file gives itself."""

    text: str


Item = Block | Skipped | Title
Source = bytes | Path


@dataclass(slots=True)
class FileDocument:
    """What was read of a file, in reading order.  `error` is set when there is nothing at all."""

    path: str
    format: str
    blocks: list[Block] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    title: str = ""
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The document for JSON."""
        return {
            "path": self.path,
            "format": self.format,
            "title": self.title,
            "error": self.error,
            "skipped": [skipped._asdict() for skipped in self.skipped],
            "blocks": [block.as_json() for block in self.blocks],
        }

    def tables(self) -> Iterator[Table]:
        """The tables, in order."""
        return (block.table for block in self.blocks if block.table is not None)


def joined(first: Block, second: Block, between: str) -> Block:
    """One block of two; `between` stands between their texts."""
    shift = len(first.text) + len(between)
    return replace(
        first,
        text=first.text + between + second.text,
        spans=first.spans + tuple(span.moved(shift) for span in second.spans),
    )


def table_block(table: Table) -> Block:
    """The block of a table; its text has a line for each row."""
    return Block("table", "\n".join(" | ".join(row) for row in table.grid()), table=table)
