"""Traps: templates that make pages without end and without anything new on them (calendars, session ids)."""

from __future__ import annotations

import re
from typing import NamedTuple

import xxhash

STALE = 20
"""Pages of one shape in a row that said nothing new: after them the shape is closed."""

MOST_PAGES = 100_000
"""Pages of one shape that are visited whatever they say."""

MARKUP = re.compile(rb"<(script|style)\b.*?</\1\s*>|<[^>]*>|\s+", re.IGNORECASE | re.DOTALL)
DIGITS = re.compile(rb"\d+")


class Template(NamedTuple):
    """The pages of one shape: how many, how many in a row brought nothing new, whether it is closed."""

    pages: int = 0
    stale: int = 0
    closed: int = 0

    def after(self, *, fresh: bool) -> Template:
        """The state after one more page."""
        stale = 0 if fresh else self.stale + 1
        pages = self.pages + 1
        return Template(pages, stale, int(self.closed or stale >= STALE or pages >= MOST_PAGES))


def content_marks(body: bytes) -> tuple[str, str]:
    """Two digests of what a page shows: as it is, and with all numbers taken out."""
    shown = MARKUP.sub(b" ", body)
    whole = xxhash.xxh3_128_hexdigest(shown)
    return whole, "n" + xxhash.xxh3_128_hexdigest(DIGITS.sub(b"", shown))
