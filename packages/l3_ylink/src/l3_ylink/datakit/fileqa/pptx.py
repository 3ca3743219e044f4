"""PPTX to blocks by python-pptx: slide after slide, shapes from the top down, tables, speaker notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .archive import checked
from .blocks import Block, Box, Cell, Item, Skipped, Source, Span, Table, Title, table_block
from .limits import Limits, Unreadable

EMU = 12_700
"""English metric units in a point."""

DEEPEST = 20


def pptx_blocks(source: Source, limits: Limits) -> Iterator[Item]:
    """The blocks of a presentation.  A span's page is the slide; its part is the shape's id."""
    try:
        import pptx
    except ImportError as error:
        raise Unreadable("no_reader") from error
    archive = checked(source, limits, "ppt/presentation.xml")
    try:
        presentation = pptx.Presentation(archive.fp)
    except Exception as error:  # whatever python-pptx meets in a damaged package
        raise Unreadable("broken") from error
    finally:
        archive.close()
    title = str(presentation.core_properties.title or "").strip()
    if title and title != "PowerPoint Presentation":
        yield Title(title)
    for number in range(1, len(presentation.slides) + 1):
        try:
            blocks = list(_slide(presentation.slides[number - 1], number))
        except (KeyError, ValueError, AttributeError, TypeError, IndexError):
            yield Skipped(number, "broken")
            continue
        yield from blocks


def _slide(slide: Any, number: int) -> Iterator[Block]:
    title = slide.shapes.title
    title_id = None if title is None else title.shape_id
    if title is not None and title.text_frame.text.strip():
        text = " ".join(title.text_frame.text.split())
        yield Block("heading", text, _span(title, number, (0.0, 0.0), text, 0), 1 if number == 1 else 2)
    for shape, shift in _in_order(slide.shapes, (0.0, 0.0), 0):
        if shape.shape_id != title_id:
            yield from _shape(shape, number, shift)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        words = slide.notes_slide.notes_text_frame.text.strip()
        if words:
            yield Block("note", words, (Span(0, len(words), number, None, "notes", (0, len(words))),))


def _in_order(
    shapes: Any, shift: tuple[float, float], depth: int
) -> Iterator[tuple[Any, tuple[float, float]]]:
    """Shapes from the top down and from left to right; those of a group together."""
    ordered = sorted(shapes, key=lambda shape: (round((shape.top or 0) / EMU / 12), shape.left or 0))
    for shape in ordered:
        if hasattr(shape, "shapes") and depth < DEEPEST:
            yield from _in_order(shape.shapes, shift, depth + 1)
        else:
            yield shape, shift


def _shape(shape: Any, number: int, shift: tuple[float, float]) -> Iterator[Block]:
    if getattr(shape, "has_table", False) and shape.has_table:
        table = _table(shape, number)
        if any(cell.text for row in table.rows for cell in row):
            yield table_block(table)
    if not getattr(shape, "has_text_frame", False) or not shape.has_text_frame:
        return
    body = (
        shape.is_placeholder
        and shape.placeholder_format.type is not None
        and len(shape.text_frame.paragraphs) > 1
    )
    place = 0
    for paragraph in shape.text_frame.paragraphs:
        raw = paragraph.text.replace("\v", "\n")
        text = raw.strip()
        if text:
            spans = _span(shape, number, shift, text, place)
            listed = body or paragraph.level > 0
            yield (
                Block("list", text, spans, min(paragraph.level + 1, 6), "•")
                if listed
                else Block("paragraph", text, spans)
            )
        place += len(raw) + 1


def _table(shape: Any, number: int) -> Table:
    rows = []
    for row in shape.table.rows:
        cells = []
        for cell in row.cells:
            if cell.is_spanned:
                continue
            text = cell.text.replace("\v", "\n").strip()
            high, wide = (cell.span_height, cell.span_width) if cell.is_merge_origin else (1, 1)
            cells.append(Cell(text, _span(shape, number, (0.0, 0.0), text, 0) if text else (), wide, high))
        rows.append(tuple(cells))
    return Table(tuple(rows), 1 if shape.table.first_row else 0)


def _span(shape: Any, number: int, shift: tuple[float, float], text: str, place: int) -> tuple[Span, ...]:
    box: Box | None = None
    if shape.left is not None and shape.width is not None:
        left, top = shape.left / EMU + shift[0], shape.top / EMU + shift[1]
        box = (
            round(left, 2),
            round(top, 2),
            round(left + shape.width / EMU, 2),
            round(top + shape.height / EMU, 2),
        )
    return (Span(0, len(text), number, box, f"shape {shape.shape_id}", (place, place + len(text))),)
