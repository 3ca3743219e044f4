"""A document side by side: its file's text and the stored one, line by line, with what differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

SHOWN = 20_000
"""Characters of a text that a page shows."""


class Line(NamedTuple):
    """A line, and what became of it: "" the same, "gone", "new", "cut" (left out of the kept text)."""

    text: str
    kind: str


def sides(original: str, stored: str, cuts: Iterable[Mapping[str, Any]]) -> tuple[list[Line], list[Line]]:
    """The lines of both texts, up to `SHOWN` characters; `cuts` are spans of characters of the stored one."""
    before, after = original[:SHOWN].split("\n"), stored[:SHOWN].split("\n")
    had, have = {_plain(line) for line in before}, {_plain(line) for line in stored.split("\n")}
    left = [Line(line, "gone" if original and _plain(line) not in have else "") for line in before]
    right, at = [], 0
    spans = [(cut["start"], cut["end"]) for cut in cuts]
    for line in after:
        end = at + len(line)
        cut = any(start < max(end, at + 1) and stop > at for start, stop in spans)
        fresh = bool(original) and _plain(line) not in had
        right.append(Line(line, "cut" if cut else "new" if fresh else ""))
        at = end + 1
    return left, right


def _plain(line: str) -> str:
    return " ".join(line.split())
