"""XLSX to blocks by openpyxl, row by row: a heading for a sheet, a table for each stretch of filled rows."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Iterator
from typing import Any

from .archive import checked
from .blocks import Block, Cell, Item, Skipped, Source, Span, Table, Title, table_block
from .limits import Limits, Unreadable

MOST_ROWS = 500
"""A longer table comes in parts of so many rows, each with the head."""

MOST_COLUMNS = 1_000
Filled = list[tuple[int, str, str]]


def xlsx_blocks(source: Source, limits: Limits) -> Iterator[Item]:
    """The blocks of a workbook, with the values that were stored for formulas.

    A span's page is the sheet's number, its part the cell, as `Sheet1!B3`.
    """
    try:
        import openpyxl  # type: ignore[import-untyped]
    except ImportError as error:
        raise Unreadable("no_reader") from error
    archive = checked(source, limits, "xl/workbook.xml", streamed="xl/worksheets/")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # parts that openpyxl does not keep
        try:
            book = openpyxl.load_workbook(archive.fp, read_only=True, data_only=True, keep_links=False)
        except Exception as error:  # whatever openpyxl meets in a damaged package
            archive.close()
            raise Unreadable("broken") from error
        try:
            title = str(getattr(book.properties, "title", "") or "").strip()
            if title:
                yield Title(title)
            for number, sheet in enumerate(book.worksheets, 1):
                yield from _sheet(sheet, number)
        finally:
            book.close()
            archive.close()


def _sheet(sheet: Any, number: int) -> Iterator[Item]:
    yield Block("heading", sheet.title, (Span(0, len(sheet.title), number, None, sheet.title),), 2)
    sheet.reset_dimensions()  # the file's word for its size may be a lie
    held: list[Filled] = []
    head: Filled | None = None
    rows = sheet.iter_rows(max_col=MOST_COLUMNS)
    while True:
        try:
            row = next(rows, None)
        except Exception:  # noqa: BLE001  (a damaged row ends the sheet, not the workbook)
            yield Skipped(number, "broken", sheet.title)
            row = None
        filled = [] if row is None else _filled(row, sheet.title)
        if filled:
            held.append(filled)
        if held and (not filled or len(held) >= MOST_ROWS):
            yield from _stretch(held, head, number)
            head = None if not filled else (head or held[0])
            held = []
        if row is None:
            return


def _filled(row: Any, sheet: str) -> Filled:
    """The filled cells of a row: column, text, address."""
    return [
        (cell.column, text, f"{sheet}!{cell.coordinate}")
        for cell in row
        if cell.value is not None and (text := cell_text(cell.value))
    ]


def cell_text(value: object) -> str:
    """A value as text: whole numbers without a fraction, dates by ISO 8601."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, dt.datetime):
        midnight = value.time() == dt.time()
        return value.date().isoformat() if midnight else value.isoformat(sep=" ")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return str(value).strip()


def _stretch(rows: list[Filled], head: Filled | None, number: int) -> Iterator[Block]:
    """A table, or paragraphs where only one column is filled."""
    columns = sorted({column for row in rows for column, _, _ in row})
    if len(columns) < 2 and head is None:
        for row in rows:
            for _, text, address in row:
                yield Block("paragraph", text, (Span(0, len(text), number, None, address, (0, len(text))),))
        return
    while len(rows) > 1 and len(rows[0]) == 1 and head is None:  # a title above the table
        _, text, address = rows.pop(0)[0]
        yield Block("paragraph", text, (Span(0, len(text), number, None, address, (0, len(text))),))
    first, last = columns[0], columns[-1]
    if head is not None:
        first, last = min(first, head[0][0]), max(last, head[-1][0])
        rows = [head, *rows]
    yield table_block(
        Table(tuple(_row(row, range(first, last + 1), number) for row in rows), min(len(rows) - 1, 1))
    )


def _row(row: Filled, columns: range, number: int) -> tuple[Cell, ...]:
    there = {column: (text, address) for column, text, address in row}
    return tuple(
        Cell(there[column][0], (_cell_span(*there[column], number),)) if column in there else Cell("")
        for column in columns
    )


def _cell_span(text: str, address: str, number: int) -> Span:
    return Span(0, len(text), number, None, address, (0, len(text)))
