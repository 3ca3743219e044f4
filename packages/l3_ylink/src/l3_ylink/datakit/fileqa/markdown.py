"""Markdown to text: headings, lists and code stay as written; what only a renderer needs goes."""

from __future__ import annotations

import re

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
