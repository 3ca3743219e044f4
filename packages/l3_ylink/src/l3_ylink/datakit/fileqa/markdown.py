"""Markdown to text: headings, lists and code stay as written; what only a renderer needs goes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .archive import opened
from .blocks import Block, Cell, Item, Source, Span, Table, table_block
from .decode import decode
from .limits import Limits

FRONT_MATTER = re.compile(r"\A---\n.*?\n(---|\.\.\.)\n", re.DOTALL)
COMMENTS = re.compile(r"<!--.*?-->", re.DOTALL)
IMAGES = re.compile(r"!\[([^\]]*)\]\([^)\n]*\)")
LINKS = re.compile(r"(?<!!)\[([^\]\n]+)\]\([^)\n]*\)")
REFERENCES = re.compile(r"^ {0,3}\[[^\]\n]+\]:\s+\S.*$\n?", re.MULTILINE)
TAGS = re.compile(r"</?(?:a|br|div|p|img|span|center|details|summary|sub|sup|hr)\b[^>\n]*>", re.IGNORECASE)
FENCES = re.compile(r"^(```|~~~)[^\n]*\n.*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r"^#\s+(.+?)\s*#*\s*$", re.MULTILINE)


def markdown_text(text: str) -> tuple[str, str]:
    """Text and title of a Markdown document; fenced code is left as it is."""
    text = FRONT_MATTER.sub("", text.replace("\r\n", "\n"))
    pieces, last = [], 0
    for fence in FENCES.finditer(text):
        pieces += [_plain(text[last : fence.start()]), fence.group()]
        last = fence.end()
    pieces.append(_plain(text[last:]))
    plain = "".join(pieces)
    title = TITLE.search(plain)
    return plain, title.group(1) if title else ""


def _plain(text: str) -> str:
    for pattern, instead in ((COMMENTS, ""), (IMAGES, r"\1"), (LINKS, r"\1"), (REFERENCES, ""), (TAGS, "")):
        text = pattern.sub(instead, text)
    return text


def markdown_blocks(source: Source, limits: Limits) -> Iterator[Item]:
    """The blocks of a Markdown file (CommonMark and pipe tables); spans count characters of the file."""
    with opened(source) as stream:
        text = decode(stream.read(limits.unpacked)).text.replace("\r\n", "\n").replace("\r", "\n")
    front = FRONT_MATTER.match(text)
    blank = "" if front is None else re.sub(r"[^\n]", " ", front.group())
    yield from _Tokens(blank + text[len(blank) :]).blocks()


class _Tokens:
    """Makes blocks of markdown-it's tokens."""

    def __init__(self, text: str) -> None:
        from markdown_it import MarkdownIt

        self.text = text
        self.starts = [0, *(match.end() for match in re.finditer("\n", text)), len(text)]
        self.tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
        self.lists: list[list[int]] = []
        self.marker = ""

    def blocks(self) -> Iterator[Block]:
        place = 0
        while place < len(self.tokens):
            token = self.tokens[place]
            if token.type in ("bullet_list_open", "ordered_list_open"):
                self.lists.append([int(token.attrGet("start") or 1), int(token.type.startswith("ordered"))])
            elif token.type in ("bullet_list_close", "ordered_list_close"):
                self.lists.pop()
            elif token.type == "list_item_open":
                number, ordered = self.lists[-1]
                self.marker = f"{number}." if ordered else "•"
                self.lists[-1][0] += 1
            elif token.type == "table_open":
                end = next(n for n in range(place, len(self.tokens)) if self.tokens[n].type == "table_close")
                yield table_block(self._table(place, end))
                place = end
            else:
                yield from self._block(token, self.tokens[place - 1] if place else token)
            place += 1

    def _block(self, token: Any, before: Any) -> Iterator[Block]:
        if token.type in ("fence", "code_block"):
            words = token.content.rstrip("\n")
            if words:
                yield Block("code", words, self._spans(token, words))
            return
        if token.type == "html_block":
            words = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", COMMENTS.sub("", token.content))).strip()
        elif token.type == "inline":
            words = _inline(token.children or []).strip()
        else:
            return
        if not words:
            return
        spans = self._spans(token, words)
        if before.type == "heading_open":
            yield Block("heading", words, spans, int(before.tag[1]))
        elif self.marker:
            marker, self.marker = self.marker, ""
            yield Block("list", words, spans, len(self.lists), marker)
        else:
            yield Block("paragraph", words, spans)

    def _spans(self, token: Any, words: str) -> tuple[Span, ...]:
        """The words themselves where they stand in the file as they are, else the lines that hold them."""
        if not token.map:
            return ()
        first, last = self.starts[token.map[0]], self.starts[min(token.map[1], len(self.starts) - 1)]
        place = self.text.find(words, first, last)
        chars = (place, place + len(words)) if place >= 0 else (first, last)
        return (Span(0, len(words), chars=chars),)

    def _table(self, start: int, end: int) -> Table:
        rows: list[list[Cell]] = []
        header = 0
        lines: tuple[int, int] = (0, 0)
        for token in self.tokens[start:end]:
            if token.type == "tr_open":
                rows.append([])
                lines = tuple(token.map) if token.map else lines  # type: ignore[assignment]
            elif token.type == "thead_close":
                header = len(rows)
            elif token.type == "inline":
                words = _inline(token.children or []).strip()
                token.map = token.map or list(lines)
                rows[-1].append(Cell(words, self._spans(token, words) if words else ()))
        return Table(tuple(map(tuple, rows)), header)


def _inline(tokens: list[Any]) -> str:
    pieces: list[str] = []
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            pieces.append("\n")
        elif token.type in ("text", "code_inline", "image"):
            pieces.append(token.content)
    return re.sub(r"\n", " ", re.sub(r"(?<=[\u2e80-\uffef])\n(?=[\u2e80-\uffef])", "", "".join(pieces)))
