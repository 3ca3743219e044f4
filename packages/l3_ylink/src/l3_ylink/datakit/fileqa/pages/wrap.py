"""What line ends broke, put together again: divided words, and lines that were only wrapped."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

from l3_ylink.datakit.fileqa.blocks import Span

from .lines import Line

_WIDE = "\u2e80-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff"
ENDS_WIDE = re.compile(rf"[{_WIDE}“”‘’…—]$")
STARTS_WIDE = re.compile(rf"^[{_WIDE}“”‘’…—]")
DIVIDED = re.compile(r"([^\W\d_]+)[-\u00ad\u2010]$")
ADDRESS = re.compile(r"(?:(?:https?|ftp)://|(?<![\w<])/\w+/)\S*[/\-\u00ad\u2010=&?_]$|[\w.~-]/$")
TYPED = 0.8
"""A line with a larger share than this in a fixed-width font is a name or command as it is typed."""

NO_CHARS = (-1, -1)
"""What a line has for its characters when the file holds none, as on a scanned page."""

WORD = re.compile(r"^[^\W\d_]+")


def glue(before: str, after: str, words: Container[str] = ()) -> tuple[int, str]:
    """How many characters to take off the end of `before`, and what to put between the two lines.

    A hyphen goes where a word was divided.  It stays where the compound is among `words`, those seen so far,
    or where the next line does not start with a small letter.
    """
    if ADDRESS.search(before) and re.match(r"[\w%~#?&=.-]", after):
        return _address(before)
    divided = DIVIDED.search(before)
    rest = WORD.match(after)
    if divided and rest:
        compound = f"{divided.group(1)}-{rest.group()}".lower()
        keeps = not rest.group()[0].islower() or compound in words or len(divided.group(1)) == 1
        return (1, "-" if keeps else "")
    if before.endswith("\u00ad"):
        return 1, ""
    if ENDS_WIDE.search(before) and STARTS_WIDE.search(after):
        return 0, ""
    return 0, " "


def _address(before: str) -> tuple[int, str]:
    """An address or path goes on without a space; a hyphen that was put after its stroke goes."""
    last = before[-1]
    if last in "-\u00ad\u2010":
        return (1, "") if before[-2:-1] == "/" else (1, "-")
    return 0, ""


def join_lines(
    lines: Sequence[Line], page: int, words: Container[str] = (), *, between: str | None = None
) -> tuple[str, list[Span]]:
    """One text of lines, and the span of each line in it; `between` is put instead of mending."""
    text, spans, typed = "", list[Span](), False
    for line in lines:
        if text:
            cut, put = (0, between) if between is not None else glue(text, line.text, words)
            if cut and not put and typed and line.mono > TYPED:
                put = "-"  # names of files and packages hold their hyphens
            if cut:
                text = text[:-cut]
                spans[-1] = spans[-1]._replace(end=len(text))
            text += put
        spans.append(Span(len(text), len(text) + len(line.text), page, rounded(line.box), "", chars(line)))
        text += line.text
        typed = line.mono > TYPED
    if "\u00ad" in text:
        text = text.replace("\u00ad", "-")
    return text, spans


def chars(line: Line) -> tuple[int, int] | None:
    """The characters of a line in the file, if the file holds them."""
    return None if line.chars == NO_CHARS else line.chars


def rounded(box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """A box to a hundredth of a point."""
    return round(box[0], 2), round(box[1], 2), round(box[2], 2), round(box[3], 2)
