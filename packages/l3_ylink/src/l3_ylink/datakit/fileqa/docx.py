"""DOCX to blocks by python-docx: headings, numbered lists, code, tables with merged cells, notes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from .archive import checked, xml
from .blocks import Block, Cell, Item, Source, Span, Table, Title, joined, table_block
from .limits import Limits, Unreadable

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
HEADING = re.compile(r"^(?:heading|标题|標題|überschrift|titre)\s*([1-9])$", re.IGNORECASE)
CODE = re.compile(r"code|source|preformatted|listing|代码|verbatim", re.IGNORECASE)
MONO = re.compile(r"mono|courier|consolas|menlo|typewriter", re.IGNORECASE)
GONE = {f"{W}{name}" for name in ("del", "moveFrom", "instrText", "delText", "pPr", "rPr")} | {FALLBACK}
WRITTEN = {f"{W}tab": "\t", f"{W}br": "\n", f"{W}cr": "\n", f"{W}noBreakHyphen": "-"}
DEEPEST = 60


class _Style(NamedTuple):
    level: int = 0
    code: bool = False
    numbering: tuple[str, int] | None = None


def docx_blocks(source: Source, limits: Limits) -> Iterator[Item]:
    """The blocks of a DOCX.  A span's part is `word/document.xml#p12`, its twelfth paragraph in the file."""
    import docx

    archive = checked(source, limits, "word/document.xml")
    stream = archive.fp
    try:
        document = docx.Document(stream)
    except Exception as error:  # whatever python-docx meets in a damaged package
        raise Unreadable("broken") from error
    finally:
        archive.close()
    title = str(document.core_properties.title or "").strip()
    if title:
        yield Title(title)
    yield from _merged_code(_Reader(document).blocks())


class _Reader:
    """Goes through a document's body once."""

    def __init__(self, document: Any) -> None:
        self.document = document
        body = document.element.body
        self.number = {paragraph: place for place, paragraph in enumerate(body.iter(f"{W}p"), 1)}
        self.styles: dict[str, _Style] = {}
        self.counters: Counter[tuple[str, int]] = Counter()
        self.formats = _number_formats(document)

    def blocks(self) -> Iterator[Block]:
        yield from self._children(self.document.element.body, 0)
        yield from self._notes()

    def _children(self, parent: Any, depth: int) -> Iterator[Block]:
        if depth > DEEPEST:
            return
        for element in parent.iterchildren():
            if element.tag == f"{W}p":
                yield from self._paragraph(element)
            elif element.tag == f"{W}tbl":
                yield from self._table(element, depth)
            elif element.tag in (f"{W}sdt", f"{W}sdtContent", f"{W}ins", f"{W}customXml"):
                yield from self._children(element, depth + 1)

    def _paragraph(self, element: Any) -> Iterator[Block]:
        text, boxes = paragraph_text(element)
        text = text.strip()
        if text:
            yield self._block(element, text)
        for box in boxes:
            yield from self._children(box, 1)

    def _block(self, element: Any, text: str) -> Block:
        spans = (Span(0, len(text), part=self._part(element), chars=(0, len(text))),)
        style = self._style(element)
        if style.level:
            return Block("heading", text.replace("\n", " "), spans, style.level)
        if style.numbering is not None and style.numbering[0] != "0":
            return Block("list", text, spans, min(style.numbering[1] + 1, 6), self._marker(style.numbering))
        if style.code or _all_mono(element):
            return Block("code", text, spans)
        return Block("paragraph", text, spans)

    def _part(self, element: Any) -> str:
        return f"word/document.xml#p{self.number.get(element, 0)}"

    def _style(self, element: Any) -> _Style:
        """What the paragraph's style says, and over it what the paragraph says itself."""
        name = element.find(f"{W}pPr/{W}pStyle")
        style = self._named(name.get(f"{W}val", "")) if name is not None else _Style()
        outline = element.find(f"{W}pPr/{W}outlineLvl")
        if outline is not None and outline.get(f"{W}val", "").isdigit():
            level = int(outline.get(f"{W}val"))
            style = style._replace(level=min(level + 1, 6) if level < 9 else 0)
        numbering = _numbering(element.find(f"{W}pPr/{W}numPr"))
        return style if numbering is None else style._replace(numbering=numbering)

    def _named(self, style_id: str) -> _Style:
        if style_id in self.styles:
            return self.styles[style_id]
        self.styles[style_id] = _Style()  # a style that is based on itself ends here
        found = next(
            (
                s
                for s in self.document.styles.element.iterchildren(f"{W}style")
                if s.get(f"{W}styleId") == style_id
            ),
            None,
        )
        if found is None:
            return _Style()
        base = found.find(f"{W}basedOn")
        style = self._named(base.get(f"{W}val", "")) if base is not None else _Style()
        label = found.find(f"{W}name")
        name = label.get(f"{W}val", "") if label is not None else style_id
        heading = HEADING.match(name)
        if heading:
            style = style._replace(level=min(int(heading.group(1)), 6))
        elif name.lower() in ("title", "标题"):
            style = style._replace(level=1)
        outline = found.find(f"{W}pPr/{W}outlineLvl")
        if outline is not None and outline.get(f"{W}val", "9").isdigit() and int(outline.get(f"{W}val")) < 9:
            style = style._replace(level=min(int(outline.get(f"{W}val")) + 1, 6))
        numbering = _numbering(found.find(f"{W}pPr/{W}numPr"))
        style = style._replace(
            code=style.code or bool(CODE.search(name)), numbering=numbering or style.numbering
        )
        self.styles[style_id] = style
        return style

    def _marker(self, numbering: tuple[str, int]) -> str:
        """The bullet, or the number that this item has in its list."""
        if self.formats.get(numbering, "bullet") in ("bullet", "none"):
            return "•"
        self.counters[numbering] += 1
        for other in [key for key in self.counters if key[0] == numbering[0] and key[1] > numbering[1]]:
            del self.counters[other]
        return f"{self.counters[numbering]}."

    def _table(self, element: Any, depth: int) -> Iterator[Block]:
        rows = [row for row in element.iter(f"{W}tr") if _owner(row, f"{W}tbl") is element]
        cells = [[cell for cell in row.iter(f"{W}tc") if _owner(cell, f"{W}tr") is row] for row in rows]
        if all(len(row) <= 1 for row in cells):  # a frame
            for row in cells:
                for cell in row:
                    yield from self._children(cell, depth + 1)
            return
        header = sum(row.find(f"{W}trPr/{W}tblHeader") is not None for row in rows)
        table = Table(tuple(self._rows(rows, cells)), header or min(len(rows) - 1, 1))
        if any(cell.text for row in table.rows for cell in row):
            yield table_block(table)

    def _rows(self, rows: list[Any], cells: list[list[Any]]) -> Iterator[tuple[Cell, ...]]:
        starts: list[dict[int, tuple[Cell, str]]] = []
        for row, members in zip(rows, cells, strict=True):
            column = _count(row.find(f"{W}trPr/{W}gridBefore"), 0)
            found: dict[int, tuple[Cell, str]] = {}
            for number in range(column):
                found[number] = (Cell(""), "")
            for cell in members:
                wide = _count(cell.find(f"{W}tcPr/{W}gridSpan"), 1)
                merge = cell.find(f"{W}tcPr/{W}vMerge")
                kind = "" if merge is None else merge.get(f"{W}val", "continue")
                found[column] = (self._cell(cell, wide), kind)
                column += wide
            starts.append(found)
        for place, found in enumerate(starts):
            yield tuple(
                replace(cell, rows=1 + _below(starts, place, column) if kind == "restart" else 1)
                for column, (cell, kind) in sorted(found.items())
                if not (kind == "continue" and place)
            )

    def _cell(self, element: Any, wide: int) -> Cell:
        text, spans = "", list[Span]()
        for paragraph in element.iter(f"{W}p"):
            words = paragraph_text(paragraph)[0].strip()
            if words:
                text += "\n" if text else ""
                spans.append(
                    Span(len(text), len(text) + len(words), part=self._part(paragraph), chars=(0, len(words)))
                )
                text += words
        return Cell(text, tuple(spans), wide)

    def _notes(self) -> Iterator[Block]:
        for relation in self.document.part.rels.values():
            if relation.reltype.rsplit("/", 1)[-1] not in ("footnotes", "endnotes") or relation.is_external:
                continue
            name = str(relation.target_part.partname).lstrip("/")
            for note in xml(relation.target_part.blob).iterchildren():
                if note.get(f"{W}type") in ("separator", "continuationSeparator", "continuationNotice"):
                    continue
                words = " ".join(paragraph_text(p)[0].strip() for p in note.iter(f"{W}p")).strip()
                if words:
                    mark = note.get(f"{W}id", "")
                    lead = f"[{mark}] "
                    span = Span(
                        len(lead), len(lead) + len(words), part=f"{name}#{mark}", chars=(0, len(words))
                    )
                    yield Block("note", lead + words, (span,))


def paragraph_text(paragraph: Any) -> tuple[str, list[Any]]:
    """The text of a paragraph with what was inserted, without what was deleted; and its text boxes."""
    pieces: list[str] = []
    boxes: list[Any] = []
    waiting = [iter(paragraph)]
    while waiting:
        element = next(waiting[-1], None)
        if element is None:
            waiting.pop()
        elif element.tag in WRITTEN:
            pieces.append(WRITTEN[element.tag])
        elif element.tag in (f"{W}t", f"{MATH}t"):
            pieces.append(element.text or "")
        elif element.tag in (f"{W}footnoteReference", f"{W}endnoteReference"):
            pieces.append(f"[{element.get(f'{W}id', '')}]")
        elif element.tag == f"{W}txbxContent":
            boxes.append(element)
        elif element.tag not in GONE and len(waiting) < 400:
            waiting.append(iter(element))
    return "".join(pieces), boxes


def _all_mono(paragraph: Any) -> bool:
    fonts = [run.find(f"{W}rPr/{W}rFonts") for run in paragraph.iterchildren(f"{W}r")]
    return bool(fonts) and all(font is not None and MONO.search(font.get(f"{W}ascii", "")) for font in fonts)


def _owner(element: Any, tag: str) -> Any:
    return next(element.iterancestors(tag), None)


def _count(element: Any, usual: int) -> int:
    value = "" if element is None else element.get(f"{W}val", "")
    return min(int(value), 1000) if value.isdigit() else usual


def _below(starts: list[dict[int, tuple[Cell, str]]], place: int, column: int) -> int:
    """How many cells under one go on with it."""
    count = 0
    for row in starts[place + 1 :]:
        if column not in row or row[column][1] != "continue":
            break
        count += 1
    return count


def _numbering(element: Any) -> tuple[str, int] | None:
    if element is None:
        return None
    number, level = element.find(f"{W}numId"), element.find(f"{W}ilvl")
    if number is None:
        return None
    return number.get(f"{W}val", "0"), _count(level, 0)


def _number_formats(document: Any) -> dict[tuple[str, int], str]:
    """The format (bullet, decimal, …) of each list and level."""
    try:
        root = document.part.numbering_part.element
    except (KeyError, NotImplementedError, AttributeError):
        return {}
    kinds: dict[str, dict[int, str]] = {}
    for abstract in root.iterchildren(f"{W}abstractNum"):
        levels = kinds.setdefault(abstract.get(f"{W}abstractNumId", ""), {})
        for level in abstract.iterchildren(f"{W}lvl"):
            kind = level.find(f"{W}numFmt")
            number = level.get(f"{W}ilvl", "0")
            levels[int(number) if number.isdigit() else 0] = (
                "bullet" if kind is None else kind.get(f"{W}val", "")
            )
    found = {}
    for number in root.iterchildren(f"{W}num"):
        abstract = number.find(f"{W}abstractNumId")
        for depth, kind in kinds.get("" if abstract is None else abstract.get(f"{W}val", ""), {}).items():
            found[number.get(f"{W}numId", ""), depth] = kind
    return found


def _merged_code(blocks: Iterator[Block]) -> Iterator[Block]:
    """Lines of code that follow one another are one block."""
    held: Block | None = None
    for block in blocks:
        if held is not None and block.kind == "code":
            held = joined(held, block, "\n")
            continue
        if held is not None:
            yield held
        held = block if block.kind == "code" else None
        if held is None:
            yield block
    if held is not None:
        yield held
