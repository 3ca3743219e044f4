"""From the lines of a page to headings, paragraphs, lists, code and contents."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from l3_ylink.datakit.fileqa.blocks import Block, Span, table_block

from .aligned import aligned_table
from .columns import INDEXED, in_reading_order
from .lines import Line
from .tables import Found
from .wrap import NO_CHARS, STARTS_WIDE, join_lines, rounded

BULLET = re.compile(r"^([•◦▪▫■□●○◆◇‣⁃∙·–—*\-\uf0b7\uf0a7])(?:\s+|(?=[^\s\-–—*\w]|[\u4e00-\u9fff]))")
ORDERED = re.compile(
    r"^(\d{1,3}(?:[.)](?!\d)|、)|(?:[a-zA-Z]|[ivx]{1,5})[.)](?=\s)|[(（](?:\d{1,3}|[a-zA-Z]|[一二三四五六七八九十]+)[)）]|[①-⑳])\s*"
)
NOTE = re.compile(r"^\[\d{1,3}\]\s*\S")
LEADERS = re.compile(
    r"^(?P<title>.*?\S)?\s*(?:[.…·]\s*){4,}\s*(?P<page>\d{1,5}|[ivxlc]{1,7})?$", re.IGNORECASE
)
SECTION = re.compile(r"^(?:\d{1,3}(?:\.\d{1,3}){0,5}|[A-Z](?:\.\d{1,3}){1,5})\.?(?=\s|[\u4e00-\u9fff])")
CHAPTER = re.compile(
    r"^(?:chapter|appendix|part)\s+\w{1,5}\b|^第\s*[\d一二三四五六七八九十百]+\s*[章节篇部]", re.IGNORECASE
)
SENTENCE_END = re.compile(r"[。！？.!?:：;；]$")
LARGER = 1.08
CODE_SHARE, SHADED_CODE_SHARE = 0.9, 0.3
LONGEST_HEADING = 160
PARAGRAPH_GAP = 0.55
"""More white than this many sizes between two lines parts paragraphs."""


class Context(NamedTuple):
    """What of the document tells a heading: the size of running text, and the outline (title to level)."""

    body: float
    outline: dict[str, int]
    words: frozenset[str] | set[str]


def body_size(pages: Sequence[Sequence[Line]]) -> float:
    """The size that most characters of some pages have."""
    sizes: Counter[float] = Counter()
    for lines in pages:
        for line in lines:
            sizes[round(line.size * 2) / 2] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 10.0


def outline_key(title: str) -> str:
    """A title without its number and its spaces."""
    return re.sub(r"\s+", "", SECTION.sub("", CHAPTER.sub("", title.strip())).strip()).lower()


def page_blocks(lines: Sequence[Line], tables: Sequence[Found], number: int, context: Context) -> list[Block]:
    """The blocks of a page in reading order; `lines` are those outside tables and running lines."""
    blocks: list[Block] = []
    waiting = sorted(tables, key=lambda table: table.box[1])
    parts = in_reading_order(lines)
    for part in parts:
        x0, x1 = min(line.box[0] for line in part), max(line.box[2] for line in part)
        for group in _split_at_tables(part, waiting, (x0, x1)):
            if isinstance(group, Found):
                blocks.append(table_block(group.table))
            else:
                blocks += _Column(group, number, context).blocks()
    blocks += [table_block(table.table) for table in waiting]
    return blocks


def _split_at_tables(
    part: list[Line], waiting: list[Found], across: tuple[float, float]
) -> Iterator[list[Line] | Found]:
    """A column's lines with the tables that stand in it between them; a table given out waits no longer."""
    held: list[Line] = []
    for line in part:
        while waiting:
            table = waiting[0]
            beside = table.box[2] < across[0] or table.box[0] > across[1]
            if table.box[1] > line.baseline or beside:
                break
            if held:
                yield held
                held = []
            yield waiting.pop(0)
        held.append(line)
    if held:
        yield held


class _Column:
    """Lines under one another, made into blocks."""

    def __init__(self, lines: list[Line], page: int, context: Context) -> None:
        self.page, self.context = page, context
        self.rows = _whole_rows(lines)
        self.left = min(line.box[0] for line in lines)
        rights = [row[-1].box[2] for row in self.rows]
        self.right = statistics.quantiles(rights, n=10)[-1] if len(rights) > 4 else max(rights)

    def blocks(self) -> list[Block]:
        found: list[Block] = []
        place = 0
        while place < len(self.rows):
            take = self._contents(place) or self._code(place) or self._table(place) or self._heading(place)
            block, place = take or self._paragraph(place)
            found.append(block)
        return _levelled(found)

    def _gap(self, place: int) -> float:
        """White between a row and the one before it, in sizes of its letters."""
        before, here = self.rows[place - 1], self.rows[place]
        return (here[0].baseline - before[0].baseline) / max(here[0].size, before[0].size) - 1.0

    def _contents(self, place: int) -> tuple[Block, int] | None:
        """A line of a table of contents: dots and page number go."""
        row = self.rows[place]
        match = LEADERS.match(" ".join(line.text for line in row))
        beside = [self.rows[other] for other in (place - 1, place + 1) if 0 <= other < len(self.rows)]
        if match is None:
            number = len(row) > 1 and re.fullmatch(r"\d{1,5}|[ivxlc]{1,7}", row[-1].text)
            dotted = any(LEADERS.match(" ".join(line.text for line in other)) for other in beside)
            if not (number and dotted):
                return None
            title = " ".join(line.text for line in row[:-1])
        else:
            title = match.group("title") or ""
        if not title.strip(" .…·"):
            return None
        span = Span(0, len(title), self.page, _box(row), "", _chars(row))
        depth = SECTION.match(title)
        level = depth.group().strip(".").count(".") + 1 if depth else 1
        return Block("contents", title, (span,), level), place + 1

    def _is_code(self, row: list[Line]) -> bool:
        mono = sum(line.mono * len(line.text) for line in row) / sum(len(line.text) for line in row)
        return mono >= CODE_SHARE or (all(line.shaded for line in row) and mono >= SHADED_CODE_SHARE)

    def _code(self, place: int) -> tuple[Block, int] | None:
        if not self._is_code(self.rows[place]):
            return None
        end = place + 1
        while (
            end < len(self.rows)
            and self._gap(end) < (2.5 if self.rows[end][0].shaded and self.rows[end - 1][0].shaded else 1.8)
            and (self._is_code(self.rows[end]) or (self.rows[end][0].shaded and self.rows[place][0].shaded))
        ):
            end += 1
        rows = self.rows[place:end]
        left = min(row[0].box[0] for row in rows)
        advance = _advance(rows)
        text, spans = "", list[Span]()
        for number, row in enumerate(rows):
            if number:
                text += "\n" * (1 + min(int(self._gap(place + number) > 1.0), 1))
            text += " " * max(round((row[0].box[0] - left) / advance), 0)
            words = "  ".join(line.text for line in row)
            spans.append(Span(len(text), len(text) + len(words), self.page, _box(row), "", _chars(row)))
            text += words
        return Block("code", text.replace("\u00ad", "-"), tuple(spans)), end

    def _table(self, place: int) -> tuple[Block, int] | None:
        found = aligned_table(self.rows[place:], self.page)
        return None if found is None else (table_block(found[0]), place + found[1])

    def _heading(self, place: int) -> tuple[Block, int] | None:
        row = self.rows[place]
        text = " ".join(line.text for line in row)
        if len(text) > LONGEST_HEADING or not any(character.isalpha() for character in text):
            return None
        level = self._level(row, text)
        if not level:
            return None
        end, rows = place + 1, [row]
        while (  # a title over several lines
            end < len(self.rows)
            and end - place < 4
            and abs(self.rows[end][0].size - row[0].size) < 0.3
            and self._gap(end) < PARAGRAPH_GAP
            and row[0].size > LARGER * self.context.body
            and not SECTION.match(self.rows[end][0].text)
        ):
            rows.append(self.rows[end])
            end += 1
        joined, spans = join_lines([line for each in rows for line in each], self.page, self.context.words)
        return Block("heading", joined, tuple(spans), level), end

    def _level(self, row: list[Line], text: str) -> int:
        size = max(line.size for line in row)
        bold = all(line.bold > 0.6 for line in row) or row[0].bold > 0.9
        larger = size > LARGER * self.context.body
        known = self.context.outline.get(outline_key(text))
        if known is not None and (larger or bold or SECTION.match(text) or CHAPTER.match(text)):
            return min(known, 6)
        number = SECTION.match(text)
        if SENTENCE_END.search(text) and not number:
            return 0
        if larger:
            if number:
                return min(number.group().strip(".").count(".") + 1, 6)
            ratio = size / self.context.body
            return (
                1 if ratio >= 1.7 or CHAPTER.match(text) else 2 if ratio >= 1.4 else 3 if ratio >= 1.2 else 4
            )
        if bold and number and len(text) < 80:
            return min(number.group().strip(".").count(".") + 1, 6)
        return 0

    def _paragraph(self, place: int) -> tuple[Block, int]:
        first = self.rows[place]
        words = " ".join(line.text for line in first)
        mark = BULLET.match(words) or (ORDERED.match(words))
        text_left = first[0].box[0]
        if mark:
            text_left += _marker_width(first, mark.end())
        end = place + 1
        noted = bool(NOTE.match(words))
        while (
            end < len(self.rows)
            and not (noted and NOTE.match(self.rows[end][0].text))
            and self._goes_on(end, first, text_left, marked=bool(mark))
        ):
            end += 1
        lines = [line for row in self.rows[place:end] for line in row]
        between = "\n" if _is_verse(self.rows[place:end]) else None
        text, spans = join_lines(lines, self.page, self.context.words, between=between)
        if NOTE.match(words) and first[0].size < 0.95 * self.context.body:
            return Block("note", text, tuple(spans)), end
        if not mark or not text[mark.end() :].strip():
            return Block("paragraph", text, tuple(spans)), end
        cut = mark.end()
        kept = tuple(
            span._replace(start=max(span.start - cut, 0), end=span.end - cut)
            for span in spans
            if span.end > cut
        )
        return Block("list", text[cut:], kept, 1, mark.group(1)), end

    def _goes_on(self, place: int, first: list[Line], text_left: float, *, marked: bool) -> bool:
        """Whether a row belongs to the paragraph of the row before it."""
        before, here = self.rows[place - 1], self.rows[place]
        size = here[0].size
        near = -0.6 <= self._gap(place) <= PARAGRAPH_GAP and abs(size - before[0].size) <= 0.15 * size
        if not near or self._begins(place, marked=marked):
            return False
        if here[0].box[0] > before[0].box[0] + 1.2 * size and not (marked and before is first):
            return False  # the first line of the next paragraph is set in
        if marked and here[0].box[0] < text_left - 1.5 * size:
            return False
        return not _ends_early(before, self._right_of(place - 1))

    def _begins(self, place: int, *, marked: bool) -> bool:
        """Whether a row is by its words the first of an item, an entry or a listing."""
        before, here = self.rows[place - 1], self.rows[place]
        words = " ".join(line.text for line in here)
        if BULLET.match(words) or LEADERS.match(words) or (self._is_code(here) and here[0].shaded):
            return True
        if INDEXED.search(words) and INDEXED.search(" ".join(line.text for line in before)):
            return True
        level = marked or here[0].box[0] > before[0].box[0] - 1
        return bool(ORDERED.match(words)) and level and _ends_early(before, self._right_of(place - 1))

    def _right_of(self, place: int) -> float:
        """Where the lines around a row end: the column's right edge, or that of text set beside a picture."""
        if STARTS_WIDE.match(self.rows[place][-1].text[-1:]):
            return self.right  # lines of verse are all of one length
        first = last = place
        while first > 0 and place - first < 6 and abs(self._gap(first)) < PARAGRAPH_GAP:
            first -= 1
        while last + 1 < len(self.rows) and last - place < 6 and abs(self._gap(last + 1)) < PARAGRAPH_GAP:
            last += 1
        ends = [row[-1].box[2] for row in self.rows[first : last + 1]]
        flush = sum(end > max(ends) - 1.5 * self.rows[place][-1].size for end in ends)
        return max(ends) if len(ends) >= 6 and flush >= 0.6 * len(ends) else self.right


def _levelled(blocks: list[Block]) -> list[Block]:
    """List items with their level, by how far they are set in beside the others of the column."""
    lefts: list[float] = []
    for left in sorted(
        block.spans[0].box[0] for block in blocks if block.kind == "list" and block.spans[0].box
    ):
        if not lefts or left - lefts[-1] > 5:
            lefts.append(left)
    found = []
    for block in blocks:
        box = block.spans[0].box if block.kind == "list" else None
        level = block.level
        if box is not None:
            level = 1 + min(range(len(lefts)), key=lambda place: abs(lefts[place] - box[0]))
        found.append(replace(block, level=min(level, 6)))
    return found


def _is_verse(rows: list[list[Line]]) -> bool:
    """Lines of Chinese verse: all of one length, and each ends with a mark."""
    texts = ["".join(line.text for line in row) for row in rows]
    lengths = {len(text) for text in texts}
    return (
        len(texts) > 1
        and max(lengths) - min(lengths) <= 1
        and all(text[-1] in "，。！？；、" for text in texts)
    )


def _ends_early(row: list[Line], right: float) -> bool:
    """Whether the next word would still have had its place: the line ends its paragraph."""
    return (
        row[-1].box[2] < right - 0.22 * (right - row[0].box[0]) and row[-1].box[2] < right - 3 * row[-1].size
    )


def _whole_rows(lines: list[Line]) -> list[list[Line]]:
    """Pieces that stand on one baseline, together."""
    rows: list[list[Line]] = []
    for line in lines:
        if rows and abs(rows[-1][0].baseline - line.baseline) < 0.3 * max(line.size, rows[-1][0].size):
            rows[-1].append(line)
        else:
            rows.append([line])
    for row in rows:
        row.sort(key=lambda line: line.box[0])
    return rows


def _box(row: list[Line]) -> tuple[float, float, float, float]:
    return rounded(
        (
            min(line.box[0] for line in row),
            min(line.box[1] for line in row),
            max(line.box[2] for line in row),
            max(line.box[3] for line in row),
        )
    )


def _chars(row: list[Line]) -> tuple[int, int] | None:
    if row[0].chars == NO_CHARS:
        return None
    return min(line.chars[0] for line in row), max(line.chars[1] for line in row)


def _advance(rows: list[list[Line]]) -> float:
    """The width of one character of code."""
    widths = [
        (line.box[2] - line.box[0]) / max(len(line.text), 1)
        for row in rows
        for line in row
        if line.text.isascii()
    ]
    return statistics.median(widths) if widths else 0.6 * rows[0][0].size


def _marker_width(row: list[Line], characters: int) -> float:
    """How far a list item's text stands from its marker."""
    if len(row) > 1 and len(row[0].text) <= characters:
        return row[1].box[0] - row[0].box[0]
    share = characters / max(len(row[0].text), 1)
    return share * (row[0].box[2] - row[0].box[0])
