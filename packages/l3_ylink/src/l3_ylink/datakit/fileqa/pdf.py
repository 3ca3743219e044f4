"""PDF to blocks: pages are read one by one by a process of their own, and put together as they come.

At most `WINDOW` pages around the one at hand are held, whatever the length of the document: what runs at the
edges of the pages around is a header or footer, what a page's end cut in two is joined.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from .blocks import Block, Item, Skipped, Table, Title, joined, table_block
from .limits import Limits, Unreadable
from .pages.assemble import SENTENCE_END, Context, body_size, outline_key, page_blocks
from .pages.lines import Line
from .pages.reader import Session, session
from .pages.running import Row, edge_rows, running_lines
from .pages.sheet import Opened, Read
from .pages.wrap import glue

WINDOW = 6
MOST_PAGES = 20_000
MOST_WORDS = 200_000
LEAST_LETTERS = 8
"""A page with fewer letters than this and an image is a scan."""

SCAN_SHARE = 0.35
NAMELESS_SHARE = 0.3
"""A page is recognised like a scan where more of its characters than this are none."""


class _Page(NamedTuple):
    read: Read
    edges: list[Row]


def pdf_blocks(source: bytes | Path, limits: Limits, *, ocr: bool = True) -> Iterator[Item]:
    """Blocks in reading order, and the pages that were skipped.

    Raises `Unreadable` with `password`, `broken`, `time`, `memory` or `too_many_pages`.
    """
    with session(source, limits) as opened:
        about = opened.opened
        if not isinstance(about, Opened):
            raise Unreadable(str(about))
        if about.pages > MOST_PAGES:
            raise Unreadable("too_many_pages")
        if about.title:
            yield Title(about.title)
        yield from _mended(_assembled(opened, about, ocr=ocr))


def _assembled(opened: Session, about: Opened, *, ocr: bool) -> Iterator[Block | Skipped]:
    outline: dict[str, int] = {}
    for title, level in about.outline:
        outline.setdefault(outline_key(title), level)
    words: set[str] = set()
    window: deque[_Page] = deque(maxlen=2 * WINDOW + 1)
    waiting: deque[_Page] = deque()

    def finish(page: _Page) -> Iterator[Block]:
        around = [other for other in window if other is not page]
        running = running_lines(page.edges, [other.edges for other in around])
        lines = [line for line in page.read.lines if line not in running]
        _learn(words, lines)
        context = Context(body_size([other.read.lines for other in window]), outline, words)
        yield from page_blocks(lines, page.read.tables, page.read.number, context)

    for number in range(1, about.pages + 1):
        read = _read(opened, number, ocr=ocr)
        if isinstance(read, Skipped):
            while waiting:
                yield from finish(waiting.popleft())
            yield read
            continue
        page = _Page(read, edge_rows(read.lines, read.height, number))
        window.append(page)
        waiting.append(page)
        if len(waiting) > WINDOW:
            yield from finish(waiting.popleft())
    while waiting:
        yield from finish(waiting.popleft())


def _read(opened: Session, number: int, *, ocr: bool) -> Read | Skipped:
    found = opened.page(number)
    if not isinstance(found, Read):
        return Skipped(number, str(found))
    scanned = found.letters < LEAST_LETTERS and found.image_share >= SCAN_SHARE
    if not scanned and not (ocr and _nameless(found)):
        return found
    scan = opened.page(number, "ocr") if ocr else "no_text"
    if isinstance(scan, Read):
        return scan
    return Skipped(number, str(scan)) if scanned else found


def _nameless(read: Read) -> bool:
    """Whether the fonts of a page do not say which characters their shapes are."""
    text = "".join(line.text for line in read.lines)
    lost = sum("\ue000" <= character <= "\uf8ff" or character == "\ufffd" for character in text)
    return len(text) > 40 and lost > NAMELESS_SHARE * len(text)


def _learn(words: set[str], lines: list[Line]) -> None:
    """Compounds with a hyphen inside a line, so that one at a line's end is known."""
    if len(words) < MOST_WORDS:
        for line in lines:
            if "-" in line.text:
                words.update(
                    word.strip("().,;:\"'").lower() for word in line.text.split() if "-" in word[1:-1]
                )


def _mended(items: Iterator[Block | Skipped]) -> Iterator[Block | Skipped]:
    """Joins what the end of a page or column cut in two."""
    held: Block | None = None
    notes: list[Block] = []
    for item in items:
        if isinstance(item, Block) and item.kind == "note":
            notes.append(item)  # comes after what goes on on the next page
            continue
        if isinstance(item, Block) and held is not None:
            both = _across(held, item)
            if both is not None:
                held = both
                continue
        if held is not None:
            yield held
        yield from notes
        notes.clear()
        held = item if isinstance(item, Block) else None
        if isinstance(item, Skipped):
            yield item
    if held is not None:
        yield held
    yield from notes


def _across(before: Block, after: Block) -> Block | None:
    """One block of two that the end of a page parted, or None."""
    if not before.pages() or not after.pages() or before.pages()[-1] == after.pages()[0]:
        return _beside(before, after)
    if before.kind == "table" and after.kind == "table" and before.table and after.table:
        return _tables(before.table, after.table)
    if before.kind == "code" and after.kind == "code":
        return joined(before, after, "\n")
    return _sentence(before, after)


def _beside(before: Block, after: Block) -> Block | None:
    """The same for two columns of a page: the second goes on higher up."""
    if not (before.spans and after.spans and before.spans[-1].box and after.spans[0].box):
        return None
    return _sentence(before, after) if after.spans[0].box[1] < before.spans[-1].box[1] - 20 else None


def _sentence(before: Block, after: Block) -> Block | None:
    open_end = before.kind in ("paragraph", "list") and after.kind == "paragraph"
    if not open_end or SENTENCE_END.search(before.text) or not after.text:
        return None
    if after.text[0].isupper() or after.text[0].isdigit() or before.text[-1] in '”"':
        return None
    if not _reaches_end(before, after):
        return None
    cut, put = glue(before.text, after.text)
    text = before.text[: len(before.text) - cut]
    spans = before.spans
    if cut and spans:
        spans = (*spans[:-1], spans[-1]._replace(end=len(text)))
    return joined(replace(before, text=text, spans=spans), after, put)


def _reaches_end(before: Block, after: Block) -> bool:
    """Whether the last line goes as far to the right as the column does."""
    boxes = [span.box for span in (*before.spans, *after.spans) if span.box]
    if not boxes or not before.spans or before.spans[-1].box is None:
        return True
    column = before.spans[-1].box[2] - before.spans[-1].box[0]
    return (
        before.spans[-1].box[2]
        >= max(box[2] for box in boxes if box[0] < before.spans[-1].box[2]) - 0.2 * column
    )


def _tables(before: Table, after: Table) -> Block | None:
    """A table that goes on: the same columns; its head, if it was printed again, goes."""
    first, second = before.grid(), after.grid()
    if not first or not second or len(first[0]) != len(second[0]) or not _same_edges(before, after):
        return None
    rows = after.rows
    if before.header and rows and first[0] == second[0]:
        rows = rows[1:]
    return table_block(Table(before.rows + rows, before.header))


def _same_edges(before: Table, after: Table) -> bool:
    """Whether the texts of the columns start at the same places."""
    one, other = _edges(before), _edges(after)
    shared = [place for place in one if place in other]
    return bool(shared) and all(abs(one[place] - other[place]) < 6 for place in shared)


def _edges(table: Table) -> dict[int, float]:
    edges: dict[int, float] = {}
    for row in table.rows:
        if all(cell.columns == 1 for cell in row):
            for place, cell in enumerate(row):
                left = min((span.box[0] for span in cell.spans if span.box), default=None)
                if left is not None:
                    edges[place] = min(edges.get(place, left), left)
    return edges
