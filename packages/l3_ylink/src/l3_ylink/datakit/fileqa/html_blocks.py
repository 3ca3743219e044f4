"""HTML to blocks: headings, paragraphs, lists, code and tables, each with its characters in the source."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import lxml.etree  # type: ignore[import-untyped]
import lxml.html  # type: ignore[import-untyped]

from .archive import opened
from .blocks import Block, Cell, Item, Kind, Source, Span, Table, Title, table_block
from .decode import decode
from .html import CHARSET, FURNITURE, INLINE
from .limits import Limits

HEADINGS = {f"h{level}": level for level in range(1, 7)}
WHITE = re.compile(r"[ \t\n\r\f\v]+")
FAR = 50_000
"""How far ahead in the source a piece of text is looked for."""

MOST_SPAN = 200


def html_file_blocks(source: Source, limits: Limits) -> Iterator[Item]:
    """The blocks of an HTML file, without scripts, navigation, headers and footers."""
    with opened(source) as stream:
        data = stream.read(limits.unpacked)
    yield from html_blocks(data, drop=frozenset(FURNITURE))


def html_blocks(
    data: bytes, *, drop: frozenset[str], part: str = "", page: int | None = None
) -> Iterator[Item]:
    """The blocks of a page.  Spans count characters of the decoded source; `part` names it in them."""
    declared = CHARSET.search(data[:4096])
    text = decode(data, declared.group(1).decode("ascii") if declared else None).text
    if not text.strip():
        return
    parser = lxml.html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True)
    try:
        tree = lxml.html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except lxml.etree.ParserError:
        return
    title = (tree.findtext(".//title") or "").strip()
    if title:
        yield Title(WHITE.sub(" ", title))
    body = tree.find("body")
    yield from _Walk(text, drop, (part, page)).blocks(tree if body is None else body)


class _Walk:
    """Goes through a page once, without recursion: pages may be nested without end."""

    def __init__(self, source: str, drop: frozenset[str], part: tuple[str, int | None]) -> None:
        self.source, self.drop, self.part = source, drop | {"script", "style", "template", "head"}, part
        self.cursor = 0
        self.kinds: list[tuple[Any, Kind, int]] = []
        self.lists: list[tuple[Any, int]] = []
        self.pieces: list[tuple[str, tuple[int, int] | None]] = []
        self.marker = ""

    def blocks(self, root: Any) -> Iterator[Block]:
        walker = lxml.etree.iterwalk(root, events=("start", "end"))
        skipped: Any = None
        for event, element in walker:
            tag = element.tag if isinstance(element.tag, str) else "script"
            if event == "start":
                if tag in self.drop and element is not root:
                    walker.skip_subtree()
                    skipped = element
                    continue
                if tag == "table" and _is_data(element):
                    yield from self._flush()
                    table = self._table(element)
                    if any(cell.text for row in table.rows for cell in row):
                        yield table_block(table)
                    walker.skip_subtree()
                    skipped = element
                    continue
                yield from self._start(element, tag)
                self._add(element.text)
            else:
                if element is not skipped:
                    yield from self._end(element, tag)
                if element is not root:
                    self._add(element.tail)
        yield from self._flush()

    def _start(self, element: Any, tag: str) -> Iterator[Block]:
        if tag == "br":
            self.pieces.append(("\n", None))
            return
        if tag in INLINE or tag in ("img", "input"):
            return
        yield from self._flush()
        if tag in HEADINGS:
            self.kinds.append((element, "heading", HEADINGS[tag]))
        elif tag in ("pre", "textarea", "listing", "xmp"):
            self.kinds.append((element, "code", 0))
        elif tag in ("ul", "ol", "menu"):
            self.lists.append((element, 0))
        elif tag == "li":
            if self.lists:
                owner, count = self.lists[-1]
                self.lists[-1] = (owner, count + 1)
                self.marker = f"{count + 1}." if owner.tag == "ol" else "•"
            else:
                self.marker = "•"
            self.kinds.append((element, "list", max(len(self.lists), 1)))

    def _end(self, element: Any, tag: str) -> Iterator[Block]:
        if tag in INLINE or tag in ("br", "img", "input"):
            return
        yield from self._flush()
        if self.kinds and self.kinds[-1][0] is element:
            self.kinds.pop()
        if self.lists and self.lists[-1][0] is element:
            self.lists.pop()

    def _add(self, raw: str | None) -> None:
        if raw:
            self.pieces.append((raw, self._find(raw)))

    def _find(self, raw: str) -> tuple[int, int] | None:
        """Where a piece of text stands in the source, between the end of a tag and the start of another."""
        if not raw.strip():
            return None
        for spelled in (raw, html.escape(raw, quote=False)):
            needle = f">{spelled}<"
            place = self.source.find(needle, max(self.cursor - 1, 0), self.cursor + FAR + len(needle))
            if place >= 0:
                self.cursor = place + 1 + len(spelled)
                return place + 1, self.cursor
        return None

    def _flush(self) -> Iterator[Block]:
        pieces, self.pieces = self.pieces, []
        kind, level = (self.kinds[-1][1], self.kinds[-1][2]) if self.kinds else ("paragraph", 0)
        if kind == "list" and not self.marker:
            kind, level = "paragraph", 0  # a second paragraph of the item
        text, spans = _joined(pieces, self.part, keep=kind == "code")
        if not text:
            return
        marker, self.marker = (self.marker, "") if kind == "list" else ("", self.marker)
        yield Block(kind, text, spans, level if kind in ("heading", "list") else 0, marker)

    def _table(self, element: Any) -> Table:
        rows, header = [], 0
        for row in element.iter("tr"):
            if next(row.iterancestors("table"), None) is not element:
                continue
            cells = list(row.iterchildren("td", "th"))
            rows.append(tuple(self._cell(cell) for cell in cells))
            head = next(row.iterancestors("thead"), None) is not None or all(
                cell.tag == "th" for cell in cells
            )
            if cells and head and header == len(rows) - 1:
                header = len(rows)
        return Table(tuple(rows), header)

    def _cell(self, element: Any) -> Cell:
        pieces: list[tuple[str, tuple[int, int] | None]] = []
        for event, inner in lxml.etree.iterwalk(element, events=("start", "end")):
            if not isinstance(inner.tag, str) or inner.tag in self.drop:
                continue
            if inner is not element and (inner.tag not in INLINE):
                pieces.append(("\n", None))
            raw = inner.text if event == "start" else (inner.tail if inner is not element else None)
            if raw:
                pieces.append((raw, self._find(raw)))
        text, spans = _joined(pieces, self.part, keep=False)
        return Cell(text, spans, _number(element, "colspan"), _number(element, "rowspan"))


def _joined(
    pieces: list[tuple[str, tuple[int, int] | None]], part: tuple[str, int | None], *, keep: bool
) -> tuple[str, tuple[Span, ...]]:
    """One text of the pieces with white space as a browser shows it; spans of those that were found."""
    text, spans = "", list[Span]()
    for raw, place in pieces:
        shown = raw.replace("\r\n", "\n").replace("\r", "\n") if keep or raw == "\n" else WHITE.sub(" ", raw)
        if not keep and shown.startswith(" ") and (not text or text[-1] in " \n"):
            shown = shown[1:]
        if shown == "\n" and not keep:
            text = text.rstrip(" ")
            shown = "" if not text or text.endswith("\n") else "\n"
        if place is not None and shown.strip():
            spans.append(Span(len(text), len(text) + len(shown), part[1], None, part[0], place))
        text += shown
    lead = len(text) - len(text.lstrip("\n" if keep else " \n"))
    text = (text.strip("\n") if keep else text.strip()).rstrip()
    cut = (
        span._replace(start=max(span.start - lead, 0), end=min(span.end - lead, len(text)))
        for span in spans
        if span.start - lead < len(text)
    )
    return text, tuple(cut)


def _is_data(table: Any) -> bool:
    """Whether a table holds data; else it only places things on the page."""
    if table.get("role") == "presentation" or table.find(".//table") is not None:
        return False
    rows = [list(row.iterchildren("td", "th")) for row in table.iter("tr")]
    if not rows or max((len(row) for row in rows), default=0) < 2:
        return False
    cells = [cell for row in rows for cell in row]
    if any(cell.tag == "th" for cell in cells):
        return True
    structured = sum(
        cell.find(".//p") is not None or cell.find(".//pre") is not None or cell.find(".//h2") is not None
        for cell in cells
    )
    return (len(rows) > 1 and structured <= len(cells) / 2) or structured <= len(cells) - len(rows)


def _number(element: Any, name: str) -> int:
    value = (element.get(name) or "").strip()
    return min(max(int(value), 1), MOST_SPAN) if value.isdecimal() else 1
