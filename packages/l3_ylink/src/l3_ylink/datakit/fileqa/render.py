"""Blocks as plain text, Markdown or HTML, with the way back from each character to the file."""

from __future__ import annotations

import bisect
import html
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from .blocks import Block, Cell, Span, Table

Form = Literal["text", "markdown", "html"]
BULLETS = "*+-*+-"
"""What stands before a list item of each level in plain text."""

Piece = tuple[str, Span | None]


class Rendered(NamedTuple):
    """A text and the spans of those of its characters that come from the file, in order."""

    text: str
    spans: tuple[Span, ...]

    def sources(self, start: int, end: int) -> list[Span]:
        """Where the characters `start` to `end` come from; the ends of the spans are cut to them."""
        first = bisect.bisect_right(self.spans, start, key=lambda span: span.end)
        found = []
        for span in self.spans[first:]:
            if span.start >= end:
                break
            found.append(span._replace(start=max(span.start, start), end=min(span.end, end)))
        return found


def render(blocks: Iterable[Block], form: Form = "text") -> Rendered:
    """All blocks as one text."""
    texts: list[str] = []
    spans: list[Span] = []
    place = 0
    for part in render_parts(blocks, form):
        texts.append(part.text)
        spans += [span.moved(place) for span in part.spans]
        place += len(part.text)
    return Rendered("".join(texts), tuple(spans))


def render_parts(blocks: Iterable[Block], form: Form = "text") -> Iterator[Rendered]:
    """The text block by block, for documents that do not fit into memory."""
    write = {"text": _text, "markdown": _markdown, "html": _html}[form]
    before: Block | None = None
    for block in blocks:
        lead = "" if before is None else _between(before, block, form)
        pieces: list[Piece] = [(lead, None), *write(block)]
        text, spans = "", list[Span]()
        for words, span in pieces:
            if span is not None and words:
                spans.append(span._replace(start=len(text), end=len(text) + len(words)))
            text += words
        yield Rendered(text, tuple(spans))
        before = block
    if before is not None:
        yield Rendered("\n", ())


def _between(before: Block, block: Block, form: Form) -> str:
    tight = form == "html" or (before.kind == block.kind and block.kind in ("list", "contents"))
    return "\n" if tight else "\n\n"


def _pieces(block: Block, change: Callable[[str], str] = str) -> Iterator[Piece]:
    """A block's text cut at its spans."""
    yield from _cut(block.text, block.spans, change)


def _cut(text: str, spans: Iterable[Span], change: Callable[[str], str]) -> Iterator[Piece]:
    place = 0
    for span in spans:
        if span.start > place:
            yield change(text[place : span.start]), None
        yield change(text[span.start : span.end]), span
        place = span.end
    if place < len(text):
        yield change(text[place:]), None


def _text(block: Block) -> Iterator[Piece]:
    if block.table is not None:
        yield from _rows(block.table, str)
        return
    if block.kind == "list":
        marker = (
            block.marker
            if block.marker[-1:].isalnum() or block.marker[-1:] in ".)、）"
            else BULLETS[block.level - 1]
        )
        yield f"{'  ' * (block.level - 1)}{marker} ", None
    yield from _pieces(block)


def _rows(table: Table, change: Callable[[str], str]) -> Iterator[Piece]:
    for number, row in enumerate(table.rows):
        if number:
            yield "\n", None
        for column, cell in enumerate(row):
            if column:
                yield " | ", None
            yield from _cut(cell.text.replace("\n", " "), cell.spans, change)


def _markdown(block: Block) -> Iterator[Piece]:
    if block.table is not None:
        yield from _markdown_table(block.table)
    elif block.kind == "code":
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", block.text)), default=0))
        yield f"{fence}\n", None
        yield from _pieces(block)
        yield f"\n{fence}", None
    else:
        yield _lead(block), None
        yield from _pieces(block, _escaped)


def _lead(block: Block) -> str:
    if block.kind == "heading":
        return "#" * max(block.level, 1) + " "
    if block.kind in ("list", "contents"):
        ordered = re.search(r"\d+", block.marker)
        mark = f"{ordered.group()}. " if ordered else "- "
        if block.marker[:1] == "(":
            mark = f"- {block.marker} "
        return "  " * (max(block.level, 1) - 1) + mark
    return "> " if block.kind == "note" else ""


def _escaped(text: str) -> str:
    """What Markdown would read as marks, made plain; a line's end stays within the block."""
    return re.sub(r"([\\`*<\[\]])|(?<!\w)(_)|(_)(?!\w)", r"\\\g<0>", text).replace("\n", "  \n")


def _markdown_table(table: Table) -> Iterator[Piece]:
    """A pipe table; a cell over several places has its text in the first of them."""
    grid = _cells(table)
    width = max((len(row) for row in grid), default=0)
    empty: list[Cell | None] = [None] * width
    for number, row in enumerate(grid if table.header else [empty, *grid]):
        yield ("\n| " if number else "| "), None
        for column in range(width):
            cell = row[column] if column < len(row) else None
            if column:
                yield " | ", None
            if cell is not None:
                yield from _cut(cell.text, cell.spans, _in_cell)
        yield " |", None
        if number == 0:
            yield "\n|" + " --- |" * width, None


def _cells(table: Table) -> list[list[Cell | None]]:
    height = len(table.rows)
    taken: dict[tuple[int, int], Cell | None] = {}
    for y, row in enumerate(table.rows):
        x = 0
        for cell in row:
            while (y, x) in taken:
                x += 1
            for down in range(min(cell.rows, height - y)):
                for right in range(cell.columns):
                    taken[y + down, x + right] = None if down or right else cell
            x += cell.columns
    width = max((x for _, x in taken), default=-1) + 1
    return [[taken.get((y, x)) for x in range(width)] for y in range(height)]


def _in_cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>")


def _html(block: Block) -> Iterator[Piece]:
    if block.table is not None:
        yield from _html_table(block.table)
        return
    tag = {
        "heading": f"h{max(block.level, 1)}",
        "code": "pre",
        "list": "li",
        "contents": "li",
        "note": "aside",
    }.get(block.kind, "p")
    yield f"<{tag}>", None
    yield from _pieces(block, html.escape)
    yield f"</{tag}>", None


def _html_table(table: Table) -> Iterator[Piece]:
    yield "<table>", None
    for number, row in enumerate(table.rows):
        tag = "th" if number < table.header else "td"
        yield "\n<tr>", None
        for cell in row:
            wide = f' colspan="{cell.columns}"' if cell.columns > 1 else ""
            high = f' rowspan="{cell.rows}"' if cell.rows > 1 else ""
            yield f"<{tag}{wide}{high}>", None
            yield from _cut(cell.text, cell.spans, lambda text: html.escape(text).replace("\n", "<br>"))
            yield f"</{tag}>", None
        yield "</tr>", None
    yield "\n</table>", None
