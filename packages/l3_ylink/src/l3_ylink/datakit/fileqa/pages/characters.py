"""The characters, fonts, ruling lines and shades of a PDF page, as pdfium reports them.

Millions of characters pass here, so pdfium's functions are called with plain integers into prepared memory.
"""

from __future__ import annotations

import ctypes
import math
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pypdfium2
import pypdfium2.raw as pdfium

MOST_CHARACTERS = 200_000
MOST_OBJECTS = 100_000
MOST_SEGMENTS = 20_000
DEEPEST_FORM = 6
HYPHEN_MARK = 2
"""What pdfium gives for a hyphen at a line's end."""

FIXED_PITCH, FORCE_BOLD = 1, 1 << 18
MONO = re.compile(r"mono|courier|consol|menlo|typewriter|cmtt|inconsolata|fixed", re.IGNORECASE)
BOLD = re.compile(r"bold|black|heavy|semibold|demi|cmbx", re.IGNORECASE)
THIN = 3.0
"""Points: what is thinner than this is a line, not an area."""

_POINTER, _INT, _UINT = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint
Floats = npt.NDArray[np.float64]


def _bound(name: str, result: Any, *arguments: Any) -> Any:
    address = ctypes.cast(getattr(pdfium, name), _POINTER).value or 0
    return ctypes.CFUNCTYPE(result, *arguments)(address)


_unicode = _bound("FPDFText_GetUnicode", _UINT, _POINTER, _INT)
_loose_box = _bound("FPDFText_GetLooseCharBox", _INT, _POINTER, _INT, _POINTER)
_text_object = _bound("FPDFText_GetTextObject", _POINTER, _POINTER, _INT)
_angle = _bound("FPDFText_GetCharAngle", ctypes.c_float, _POINTER, _INT)
_origin = _bound("FPDFText_GetCharOrigin", _INT, _POINTER, _INT, _POINTER, _POINTER)
_font_size = _bound("FPDFText_GetFontSize", ctypes.c_double, _POINTER, _INT)
_font = _bound("FPDFTextObj_GetFont", _POINTER, _POINTER)
_font_flags = _bound("FPDFFont_GetFlags", _INT, _POINTER)
_font_name = _bound("FPDFFont_GetBaseFontName", ctypes.c_size_t, _POINTER, _POINTER, ctypes.c_size_t)


class Font(NamedTuple):
    """What of a font tells code and headings from running text."""

    mono: bool = False
    bold: bool = False


class Rule(NamedTuple):
    """A ruling line: along x at `at` from `start` to `end` (or along y, for upright ones)."""

    at: float
    start: float
    end: float


@dataclass
class Page:
    """The visible characters of a page in the order of the file, spaces left out, and its lines.

    `boxes` has (left, top, right, bottom) per character; `index` is the character's number for pdfium;
    `spaced` tells that a space stood before it; `run` changes where pdfium starts another text object.
    """

    width: float
    height: float
    codes: npt.NDArray[np.uint32]
    boxes: Floats
    baselines: Floats
    sizes: Floats
    index: npt.NDArray[np.int64]
    spaced: npt.NDArray[np.bool_]
    run: npt.NDArray[np.int64]
    mono: npt.NDArray[np.bool_]
    bold: npt.NDArray[np.bool_]
    upright: npt.NDArray[np.bool_]
    across: list[Rule]
    down: list[Rule]
    shades: list[tuple[float, float, float, float]]
    image_share: float = 0.0


def read_page(page: pypdfium2.PdfPage) -> Page:
    """Characters and lines of one page."""
    turn = _Turn(page)
    drawn = _Drawn(turn)
    drawn.collect(page)
    text = page.get_textpage()
    try:
        return _characters(text, turn, drawn)
    finally:
        text.close()


class _Turn:
    """From pdfium's coordinates (from the bottom left, page not turned) to those of the page as shown."""

    def __init__(self, page: pypdfium2.PdfPage) -> None:
        box = pdfium.FS_RECTF()
        pdfium.FPDF_GetPageBoundingBox(page.raw, box)
        self.left, self.bottom, self.right, self.top = box.left, box.bottom, box.right, box.top
        self.quarter = page.get_rotation() // 90 % 4
        wide, high = self.right - self.left, self.top - self.bottom
        self.width, self.height = (high, wide) if self.quarter % 2 else (wide, high)

    def points(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        match self.quarter:
            case 0:
                return x - self.left, self.top - y
            case 1:
                return y - self.bottom, x - self.left
            case 2:
                return self.right - x, y - self.bottom
            case _:
                return self.top - y, self.right - x

    def boxes(self, left: Floats, top: Floats, right: Floats, bottom: Floats) -> Floats:
        x0, y0 = self.points(left, top)
        x1, y1 = self.points(right, bottom)
        return np.stack([np.minimum(x0, x1), np.minimum(y0, y1), np.maximum(x0, x1), np.maximum(y0, y1)], 1)

    def box(self, left: float, bottom: float, right: float, top: float) -> tuple[float, float, float, float]:
        x0, y0 = self.points(np.float64(left), np.float64(top))  # type: ignore[arg-type]
        x1, y1 = self.points(np.float64(right), np.float64(bottom))  # type: ignore[arg-type]
        return float(min(x0, x1)), float(min(y0, y1)), float(max(x0, x1)), float(max(y0, y1))


def _characters(text: pypdfium2.PdfTextPage, turn: _Turn, drawn: _Drawn) -> Page:
    handle = ctypes.cast(text.raw, _POINTER).value or 0
    count = min(max(pdfium.FPDFText_CountChars(text.raw), 0), MOST_CHARACTERS)
    codes = np.fromiter((_unicode(handle, place) for place in range(count)), np.uint32, count)
    visible = np.flatnonzero(~_white(codes))
    spaced = np.zeros(len(visible), bool)
    spaced[1:] = np.diff(visible) > 1
    raw = np.zeros((len(visible), 4), np.float32)
    address = raw.ctypes.data
    for row, place in enumerate(visible.tolist()):
        _loose_box(handle, place, address + 16 * row)  # left, top, right, bottom
    objects = np.fromiter(
        (_text_object(handle, place) or 0 for place in visible.tolist()), np.uint64, len(visible)
    )
    run = np.zeros(len(visible), np.int64)
    run[1:] = np.cumsum(objects[1:] != objects[:-1])
    first = np.flatnonzero(np.r_[True, run[1:] != run[:-1]]) if len(visible) else np.zeros(0, np.int64)
    about = [_about(handle, int(visible[start]), int(objects[start]), turn) for start in first.tolist()]
    fonts = [item[3] for item in about]
    boxes = turn.boxes(*raw.astype(np.float64).T)
    mono = np.array([font.mono for font in fonts], bool)[run]
    return Page(
        width=turn.width,
        height=turn.height,
        codes=_typed(codes[visible], mono),
        boxes=boxes,
        baselines=np.array([item[0] for item in about], float)[run],
        sizes=np.array([item[1] for item in about], float)[run],
        index=visible,
        spaced=spaced,
        run=run,
        mono=mono,
        bold=np.array([font.bold for font in fonts], bool)[run],
        upright=np.array([item[2] for item in about], bool)[run],
        across=drawn.across,
        down=drawn.down,
        shades=drawn.shades,
        image_share=min(drawn.image_area / max(turn.width * turn.height, 1.0), 1.0),
    )


def _white(codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    white: npt.NDArray[np.bool_] = (
        ((codes <= 32) & (codes != HYPHEN_MARK))
        | (codes == 0xA0)
        | (codes == 0x3000)
        | ((codes >= 0x2000) & (codes <= 0x200B))
    )
    return white


def _typed(codes: npt.NDArray[np.uint32], mono: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint32]:
    """Quotation marks of code as they are typed: typesetting systems print curly ones for them."""
    if (mono & (codes == 0x201C)).any():  # they come in pairs: the author's own
        return codes
    for printed, typed in ((0x2019, 0x27), (0x201D, 0x22), (0x2018, 0x60)):
        codes = np.where(mono & (codes == printed), np.uint32(typed), codes)
    return codes


def _about(handle: int, place: int, text_object: int, turn: _Turn) -> tuple[float, float, bool, Font]:
    """Baseline, size, whether upright, and font, of the text object that a character belongs to."""
    x, y = ctypes.c_double(), ctypes.c_double()
    _origin(handle, place, ctypes.addressof(x), ctypes.addressof(y))
    _, baseline = turn.points(np.float64(x.value), np.float64(y.value))  # type: ignore[arg-type]
    box = (ctypes.c_float * 4)()
    _loose_box(handle, place, ctypes.addressof(box))
    wide, high = abs(box[2] - box[0]), abs(box[1] - box[3])
    angle = (_angle(handle, place) + turn.quarter * math.pi / 2) % (2 * math.pi)
    upright = min(angle, 2 * math.pi - angle) < 0.1 or turn.quarter != 0
    size = float(_font_size(handle, place))
    shown = wide if turn.quarter % 2 else high
    if not 0.6 * size <= shown <= 2.0 * size and shown > 0:  # the size is scaled by the text's matrix
        size = shown / 1.15
    return float(baseline), max(size, 0.5), upright, _font_of(text_object)


def _font_of(text_object: int) -> Font:
    font = _font(text_object) if text_object else None
    if not font:
        return Font()
    name = ctypes.create_string_buffer(128)
    _font_name(font, ctypes.addressof(name), 128)
    spelled = name.value.decode("latin-1")
    flags = max(_font_flags(font), 0)
    return Font(
        bool(flags & FIXED_PITCH) or bool(MONO.search(spelled)),
        bool(flags & FORCE_BOLD) or bool(BOLD.search(spelled)),
    )


class _Drawn:
    """Collects lines, shaded areas and images from a page's objects, forms included."""

    def __init__(self, turn: _Turn) -> None:
        self.turn = turn
        self.across: list[Rule] = []
        self.down: list[Rule] = []
        self.shades: list[tuple[float, float, float, float]] = []
        self.image_area = 0.0
        self.left = MOST_OBJECTS

    def collect(self, page: pypdfium2.PdfPage) -> None:
        count = pdfium.FPDFPage_CountObjects(page.raw)
        for number in range(min(count, MOST_OBJECTS)):
            self._object(pdfium.FPDFPage_GetObject(page.raw, number), (1.0, 0.0, 0.0, 1.0, 0.0, 0.0), 0)

    def _object(self, item: Any, matrix: tuple[float, ...], depth: int) -> None:
        self.left -= 1
        if self.left < 0 or not item:
            return
        kind = pdfium.FPDFPageObj_GetType(item)
        if kind == pdfium.FPDF_PAGEOBJ_PATH:
            self._path(item, matrix)
        elif kind == pdfium.FPDF_PAGEOBJ_IMAGE:
            x0, y0, x1, y1 = self._bounds(item, matrix)
            self.image_area += max(x1 - x0, 0) * max(y1 - y0, 0)
        elif kind == pdfium.FPDF_PAGEOBJ_FORM and depth < DEEPEST_FORM:
            inner = _times(_matrix(item), matrix)
            for number in range(min(pdfium.FPDFFormObj_CountObjects(item), MOST_OBJECTS)):
                self._object(pdfium.FPDFFormObj_GetObject(item, number), inner, depth + 1)

    def _bounds(self, item: Any, matrix: tuple[float, ...]) -> tuple[float, float, float, float]:
        edges = [ctypes.c_float() for _ in range(4)]
        pdfium.FPDFPageObj_GetBounds(item, *edges)
        x0, y0, x1, y1 = (edge.value for edge in edges)
        (ax, ay), (bx, by) = _at(matrix, x0, y0), _at(matrix, x1, y1)
        return self.turn.box(ax, ay, bx, by)

    def _path(self, item: Any, matrix: tuple[float, ...]) -> None:
        fill, stroke = ctypes.c_int(), ctypes.c_int()
        pdfium.FPDFPath_GetDrawMode(item, fill, stroke)
        segments = pdfium.FPDFPath_CountSegments(item)
        if not (fill.value or stroke.value) or segments < 2:
            return
        if segments > 5 and segments <= MOST_SEGMENTS:
            self._segments(item, matrix, segments, filled=bool(fill.value))
            return
        x0, y0, x1, y1 = self._bounds(item, matrix)
        width = ctypes.c_float()
        pdfium.FPDFPageObj_GetStrokeWidth(item, width)
        pale = _pale(item, stroke=not fill.value)
        if stroke.value and width.value > THIN:  # drawn with a broad pen: an area
            self.shades.append((x0, y0, x1, y1))
        elif stroke.value and segments >= 4:
            self._frame(x0, y0, x1, y1)
        elif x1 - x0 >= THIN and y1 - y0 >= THIN:
            if fill.value and not pale:
                self.shades.append((x0, y0, x1, y1))
        elif not pale:
            self._line(x0, y0, x1, y1)

    def _segments(self, item: Any, matrix: tuple[float, ...], count: int, *, filled: bool) -> None:
        """Straight pieces of a long path: a whole grid may be drawn as one."""
        inner = _times(_matrix(item), matrix)
        x, y = ctypes.c_float(), ctypes.c_float()
        last = start = (0.0, 0.0)
        for number in range(count):
            segment = pdfium.FPDFPath_GetPathSegment(item, number)
            pdfium.FPDFPathSegment_GetPoint(segment, x, y)
            here = _at(inner, x.value, y.value)
            if pdfium.FPDFPathSegment_GetType(segment) == pdfium.FPDF_SEGMENT_MOVETO:
                start = here
            elif pdfium.FPDFPathSegment_GetType(segment) == pdfium.FPDF_SEGMENT_LINETO:
                self._piece(last, here)
            if not filled and pdfium.FPDFPathSegment_GetClose(segment):
                self._piece(here, start)
            last = here

    def _piece(self, one: tuple[float, float], other: tuple[float, float]) -> None:
        x0, y0, x1, y1 = self.turn.box(*one, *other)
        if min(x1 - x0, y1 - y0) < 0.5:
            self._line(x0, y0, x1, y1)

    def _frame(self, x0: float, y0: float, x1: float, y1: float) -> None:
        for line in ((x0, y0, x1, y0), (x0, y1, x1, y1), (x0, y0, x0, y1), (x1, y0, x1, y1)):
            self._line(*line)

    def _line(self, x0: float, y0: float, x1: float, y1: float) -> None:
        if x1 - x0 >= y1 - y0 and x1 - x0 > THIN:
            self.across.append(Rule((y0 + y1) / 2, x0, x1))
        elif y1 - y0 > THIN:
            self.down.append(Rule((x0 + x1) / 2, y0, y1))


def _matrix(item: Any) -> tuple[float, ...]:
    matrix = pdfium.FS_MATRIX()
    pdfium.FPDFPageObj_GetMatrix(item, matrix)
    return matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f


def _times(first: tuple[float, ...], second: tuple[float, ...]) -> tuple[float, ...]:
    a, b, c, d, e, f = first
    p, q, r, s, t, u = second
    return a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s, e * p + f * r + t, e * q + f * s + u


def _at(matrix: tuple[float, ...], x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f


def _pale(item: Any, *, stroke: bool) -> bool:
    """Whether the colour is white or not seen at all."""
    parts = [ctypes.c_uint(0) for _ in range(4)]
    get = pdfium.FPDFPageObj_GetStrokeColor if stroke else pdfium.FPDFPageObj_GetFillColor
    if not get(item, *parts):
        return False
    red, green, blue, opaque = (part.value for part in parts)
    return opaque == 0 or min(red, green, blue) >= 253
