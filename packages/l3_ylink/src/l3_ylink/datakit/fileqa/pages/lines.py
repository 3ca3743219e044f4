"""From characters to lines of text: baselines, spaces, and gaps that may be the gutter between columns."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from l3_ylink.datakit.fileqa.blocks import Box

from .characters import HYPHEN_MARK, Page

Indices = npt.NDArray[np.int64]

SOFT_HYPHEN = 0xAD
_HYPHEN_MARKS = (HYPHEN_MARK, 0xFFFE)
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
RAISED_NUMBER = re.compile(r"(?<![0-9⁰¹²³⁴⁵⁶⁷⁸⁹])(?<!\b[A-Za-z])[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}(?![⁰¹²³⁴⁵⁶⁷⁸⁹])")

#: Ligatures and radicals that fonts put for letters and hanzi.
REPLACED = {
    code: unicodedata.normalize("NFKC", chr(code))
    for code in (*range(0xFB00, 0xFB07), *range(0x2E80, 0x2FD6))
    if unicodedata.normalize("NFKC", chr(code)) != chr(code)
}
#: What is added to the code of a digit to get its superscript.
SUPERSCRIPT = np.zeros(58, np.int64)
SUPERSCRIPT[48:58] = [
    ord(raised) - ord(digit) for digit, raised in zip("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹", strict=True)
]

WIDE_GAP = 1.2
"""A gap of so many times the size of the letters parts two pieces of a line."""


class Line(NamedTuple):
    """A line, or the part of one that stands in a column.  `mono` and `bold` are shares of its characters."""

    text: str
    box: Box
    baseline: float
    size: float
    mono: float
    bold: float
    shaded: bool
    chars: tuple[int, int]


def is_wide(codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """Which characters are East Asian ones, written without spaces between them."""
    wide: npt.NDArray[np.bool_] = (
        ((codes >= 0x2E80) & (codes <= 0x9FFF))
        | ((codes >= 0xF900) & (codes <= 0xFAFF))
        | ((codes >= 0xFE30) & (codes <= 0xFE4F))
        | ((codes >= 0xFF00) & (codes <= 0xFFEF))
        | ((codes >= 0x20000) & (codes <= 0x3FFFF))
    )
    return wide


def page_lines(page: Page, chosen: Indices, *, whole_rows: bool = False) -> list[Line]:
    """The lines of some characters, from the top down and from left to right.

    `whole_rows` keeps a row together over wide gaps, as in a cell of a table.
    """
    found = []
    for row in _rows(page, chosen):
        for piece in [row] if whole_rows else _pieces(page, row):
            line = _line(page, piece)
            if line.text:
                found.append(line)
    return found


def _rows(page: Page, chosen: Indices) -> list[Indices]:
    """Characters by baseline, each row sorted along it; raised and lowered small ones join their row."""
    if not len(chosen):
        return []
    chosen = chosen[np.argsort(page.index[chosen], kind="stable")]
    x0, x1 = page.boxes[chosen, 0], page.boxes[chosen, 2]
    size, baseline = page.sizes[chosen], page.baselines[chosen]
    cut = np.ones(len(chosen), bool)
    gap = x0[1:] - x1[:-1]
    cut[1:] = (
        (page.run[chosen][1:] != page.run[chosen][:-1]) | (gap > 0.9 * size[1:]) | (gap < -1.5 * size[1:])
    )
    starts = np.flatnonzero(cut)
    ends = np.r_[starts[1:], len(chosen)]
    order = np.argsort(baseline[starts], kind="stable")
    rows: list[_Row] = []
    small: list[tuple[int, int]] = []
    for number in order.tolist():
        start, end = int(starts[number]), int(ends[number])
        here, high = float(baseline[start]), float(size[start])
        row = next(
            (row for row in rows[:-4:-1] if abs(row.baseline - here) <= 0.25 * max(row.size, high)), None
        )
        if row is not None:
            row.parts.append((start, end))
            if high > row.size:
                row.size, row.baseline = high, here
        else:
            rows.append(_Row(here, high, [(start, end)]))
    rows, small = _without_scripts(rows, x0, x1)
    for start, end in small:
        _attach(rows, (start, end), float(baseline[start]))
    rows.sort(key=lambda row: row.baseline)
    return [_ordered(row, chosen, x0) for row in rows]


class _Row:
    __slots__ = ("baseline", "parts", "size")

    def __init__(self, baseline: float, size: float, parts: list[tuple[int, int]]) -> None:
        self.baseline, self.size, self.parts = baseline, size, parts


def _without_scripts(
    rows: list[_Row], x0: npt.NDArray[np.float64], x1: npt.NDArray[np.float64]
) -> tuple[list[_Row], list[tuple[int, int]]]:
    """Rows, and apart from them those that are superscripts or subscripts of a row close by."""
    kept, small = [], []
    for number, row in enumerate(rows):
        near = [other for other in rows[max(number - 2, 0) : number + 3] if other is not row]
        script = any(
            row.size <= 0.85 * other.size
            and abs(row.baseline - other.baseline) < 0.6 * other.size
            and all(
                any(
                    abs(x0[start] - x1[last - 1]) < other.size or abs(x0[first] - x1[end - 1]) < other.size
                    for first, last in other.parts
                )
                for start, end in row.parts
            )
            for other in near
        )
        if script:
            small += row.parts
        else:
            kept.append(row)
    return (kept, small) if kept else (rows, [])


def _attach(rows: list[_Row], part: tuple[int, int], baseline: float) -> None:
    min(rows, key=lambda row: abs(row.baseline - baseline)).parts.append(part)


def _ordered(row: _Row, chosen: Indices, x0: npt.NDArray[np.float64]) -> Indices:
    row.parts.sort(key=lambda part: x0[part[0]])
    return np.concatenate([chosen[start:end] for start, end in row.parts])


def _pieces(page: Page, row: Indices) -> list[Indices]:
    """A row cut at wide gaps; code is never cut."""
    boxes = page.boxes[row]
    gaps = boxes[1:, 0] - np.maximum.accumulate(boxes[:, 2])[:-1]
    wide = gaps > WIDE_GAP * np.maximum(page.sizes[row[1:]], page.sizes[row[:-1]])
    wide &= ~(page.mono[row[1:]] & page.mono[row[:-1]])
    return np.split(row, np.flatnonzero(wide) + 1)


def _line(page: Page, piece: Indices) -> Line:
    boxes, codes = page.boxes[piece], page.codes[piece]
    twice = np.zeros(len(piece), bool)
    twice[1:] = (codes[1:] == codes[:-1]) & (
        np.abs(boxes[1:, 0] - boxes[:-1, 0]) < 0.15 * page.sizes[piece][1:]
    )
    if twice.any():  # printed twice to look bold
        piece, boxes, codes = piece[~twice], boxes[~twice], codes[~twice]
    mono = page.mono[piece]
    box = (
        float(boxes[:, 0].min()),
        float(boxes[:, 1].min()),
        float(boxes[:, 2].max()),
        float(boxes[:, 3].max()),
    )
    index = page.index[piece]
    share = float(mono.mean())
    spaces = _code_spaces(page, piece) if share >= 0.8 else _spaces(page, piece)
    codes = np.where(_raised(page, piece), codes + SUPERSCRIPT[codes.clip(0, 57)], codes).astype(np.uint32)
    return Line(
        text=_with_notes(text_of(codes, spaces)),
        box=box,
        baseline=float(np.median(page.baselines[piece])),
        size=float(np.median(page.sizes[piece])),
        mono=share,
        bold=float(page.bold[piece].mean()),
        shaded=_in_shade(page, box),
        chars=(int(index.min()), int(index.max()) + 1),
    )


def _raised(page: Page, piece: Indices) -> npt.NDArray[np.bool_]:
    """Digits that stand small above the line: calls of footnotes, or exponents."""
    size, baseline, codes = page.sizes[piece], page.baselines[piece], page.codes[piece]
    large = float(size.max())
    level = float(np.median(baseline[size > 0.9 * large]))
    raised: npt.NDArray[np.bool_] = (
        (size < 0.85 * large) & (baseline < level - 0.15 * large) & (codes >= 48) & (codes <= 57)
    )
    return raised


def _with_notes(text: str) -> str:
    """Raised numbers after words as [1]; after digits and single letters they stay exponents."""
    return RAISED_NUMBER.sub(lambda found: f"[{found.group().translate(_RAISED)}]", text)


def _spaces(page: Page, piece: Indices) -> Indices:
    """How many spaces stand before each character of running text."""
    boxes, codes, size = page.boxes[piece], page.codes[piece], page.sizes[piece]
    spaces = np.zeros(len(piece), np.int64)
    gap = (boxes[1:, 0] - boxes[:-1, 2]) / np.maximum(size[1:], size[:-1])
    wide = is_wide(codes)
    both, spaced = wide[1:] & wide[:-1], page.spaced[piece][1:]
    spaces[1:] = np.where(both, gap > 0.45, (spaced & (gap > 0.05)) | (gap > 0.3))
    return spaces


def _code_spaces(page: Page, piece: Indices) -> Indices:
    boxes, mono = page.boxes[piece], page.mono[piece]
    advance = float(np.median(boxes[mono, 2] - boxes[mono, 0])) or 1.0
    gap = boxes[1:, 0] - boxes[:-1, 2]
    spaces = np.zeros(len(piece), np.int64)
    spaces[1:] = np.clip(np.rint(gap / advance), 0, 200)
    return spaces


def text_of(codes: npt.NDArray[np.uint32], spaces: Indices) -> str:
    """The characters with their spaces; what fonts put for letters becomes letters."""
    codes = np.where(np.isin(codes, _HYPHEN_MARKS), SOFT_HYPHEN, codes).astype(np.uint32)
    placed = np.full(len(codes) + int(spaces.sum()), 32, np.uint32)
    placed[np.arange(len(codes)) + np.cumsum(spaces)] = codes
    text = placed.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
    if any("\ud800" <= character <= "\udfff" for character in (max(text), min(text))) or not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").translate(REPLACED)
    return text.strip()


def _in_shade(page: Page, box: Box) -> bool:
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    large = 0.6 * page.height
    return any(x0 - 2 <= x <= x1 + 2 and y0 <= y <= y1 and y1 - y0 < large for x0, y0, x1, y1 in page.shades)
