"""Chinese read in the wrong way, and what it said: GBK one byte late, and UTF-8 as GBK.

One byte late: where a byte of GBK was lost, the second half of each character is read with the first half
of the next (因为每一层 becomes 因?槊恳徊), until plain ASCII comes.  Pinyin put between the halves of a
character does the same and leaves itself behind: 因?yàn)槊恳; the reading tells the byte that was lost.
UTF-8 as GBK: three bytes of a character are read two by two (你好， becomes 浣犲ソ锛).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from l3_ylink.datakit.quality.characters import SIMPLIFIED, TRADITIONAL, characters

from .beam import LOST, SECOND, WHOLE, Codes, Move, Reading, likeliest
from .chinese import ChineseModel, chinese
from .gbk import BROKEN, NONE, SYLLABLE, Items, itemise, of_utf_8, tables

MAYBE_BROKEN = re.compile("[?\ufffd][a-zü]{1,6}\\)|[āáǎàēéěèīíǐìōóǒòūúǔùǖǘǚǜ][a-z]{0,2}\\)")
CERTAIN = re.compile(f"[?\ufffd]{SYLLABLE}\\)|\ufffd")
LOST_HALF = re.compile("(?<=[\u3400-\u9fff])\ufffd|\ufffd(?=[\u3400-\u9fff])")

SOME_FREE = 40
"""Of pairs with a first byte, how many must be free for a mark to be one of them."""

LOSS = 5.0
"""Cost of a lost byte that left a mark."""
HIDDEN = 11.0
"""Cost of a lost byte that left none."""
UTF_8_CHARACTER = re.compile(rb"[\xe2-\xef][\x80-\xbf]{2}")
UTF_8_SHARE = 0.3
"""GBK has whole UTF-8 characters in a twentieth of its bytes by chance; damaged UTF-8 in more than half."""

HIDDEN_NEAR = 10
"""A byte lost without a mark is thought of where an odd character comes within so many bytes."""

OTHER_SCRIPT = 4.0
TELLING = 3
"""How many more characters of one script than of the other tell which one a text is in."""

MARGIN = 8.0
"""How many nats likelier a repaired span must be than the span as it stands; a broken annotation is proof."""

DOUBTFUL, FEW = -11.5, 4
"""Nats a character below which a few characters in a row are worth the search."""

LIKELY, STRETCH = -9.0, 10
"""Nats a character that each stretch of a repaired span must reach; clean text has -4 to -7, misread -11."""

SURE, LIKELY_SURE = 100.0, -12.0
"""Where the repair is so many nats likelier, rare words in it are no objection."""

WINDOW, LEAST_ODD = 6, 2
NEAR = 24
PASSES = 5
MOST = 20_000
"""Characters of one text that are looked at: a text that is odd all over is not Chinese."""


class Span(NamedTuple):
    """A part of a line that looks misread."""

    start: int
    end: int


class OneByteLate:
    """Items read as GBK whose lost bytes are guessed: a mark, or with `hidden` a byte without one."""

    def __init__(self, items: Items, *, traditional: bool | None) -> None:
        self._row, self._sound, odd, self._mark = items
        self._traditional = traditional
        near = np.convolve(np.asarray(odd, np.int8), np.ones(HIDDEN_NEAR, np.int8), "full")
        self._hidden = (near[HIDDEN_NEAR - 1 :] > 0).tolist()
        self._tables = tables()
        self._readings = chinese().readings

    def moves(self, place: int) -> list[Move]:
        item = self._row[place]
        if item >= WHOLE:
            return [Move(_one(item - WHOLE), 1)]
        if item == LOST:
            return self._lost(place)
        if item == SECOND:
            found = self._tables.of_trail.get(self._at(place + 1), NONE)
            return [move._replace(fits=self._unread) for move in self._guesses(found, 2, 0.0)]
        if item < 0x81:
            return [Move(_one(0x20AC if item == 0x80 else item), 1)]
        return self._character(place, item)

    def _unread(self, before: Codes, codes: Codes) -> npt.NDArray[np.bool_]:
        """Whether the second half of one character with the first half of the next is a pair left free."""
        trails = [self._tables.trail.get(code, 0) for code in before.tolist()]
        leads = [self._tables.lead.get(code, 0) for code in codes.tolist()]
        return self._tables.unread[trails, leads]

    def _at(self, place: int) -> int:
        return self._row[place] if place < len(self._row) else WHOLE

    def _lost(self, place: int) -> list[Move]:
        """A mark as itself, or as the first half of the character whose second half follows."""
        if place in self._sound:
            return list(self._broken(place))
        found = self._tables.of_trail.get(self._at(place + 2), NONE)
        return [Move(_one(self._mark[place]), 2), *self._guesses(found, 3, LOSS)]

    def _broken(self, place: int) -> Iterator[Move]:
        """The character that an annotation was put into: its first half is lost, perhaps its second too."""
        after = self._at(place + 1)
        if after != LOST:
            found = self._tables.of_trail.get(after, NONE)
            yield from self._guesses(found[[self._between(place, code) for code in found.tolist()]], 2, LOSS)
        elif place + 1 not in self._sound:
            found = self._tables.vocabulary
            found = found[[self._between(place, code) for code in found.tolist()]]
            yield from self._guesses(found, 3, LOSS)
            yield from self._guesses(self._before_free(found), 2, LOSS)

    def _before_free(self, found: Codes) -> Codes:
        """Characters whose second half begins a pair that GBK leaves free."""
        trails = [self._tables.trail[code] for code in found.tolist()]
        free: Codes = found[self._tables.unread.sum(axis=1)[trails] > SOME_FREE]
        return free

    def _between(self, place: int, code: int) -> bool:
        """Whether the lost first half of `code`, with the byte before it, was read as the annotation says."""
        before = self._row[place - 1] if place else WHOLE
        if not 0x81 <= before < LOST:
            return False
        split = self._tables.pair[before, self._tables.lead[code]]
        return chr(int(split)) in self._readings[self._sound[place]]

    def _character(self, place: int, lead: int) -> list[Move]:
        trail = self._at(place + 1)
        moves = []
        if trail < LOST and self._tables.pair[lead, trail]:
            moves.append(Move(_one(int(self._tables.pair[lead, trail])), 2))
        if trail == LOST:
            moves += self._second_half(place, self._tables.of_lead.get(lead, NONE))
        if self._hidden[place]:
            moves += self._guesses(self._tables.of_lead.get(lead, NONE), 1, HIDDEN)
            moves += self._guesses(self._tables.of_trail.get(lead, NONE), 1, HIDDEN)
        return moves

    def _second_half(self, place: int, found: Codes) -> Iterator[Move]:
        """A mark after a first half: its second half, or that and the first half of the next character."""
        if place + 1 in self._sound:
            said = self._readings[self._sound[place + 1]]
            yield from self._guesses(found[[chr(code) in said for code in found.tolist()]], 2, LOSS)
            return
        yield from self._guesses(found, 3, LOSS)
        yield from self._guesses(self._before_free(found), 2, LOSS)

    def _guesses(self, codes: Codes, items: int, cost: float) -> Iterator[Move]:
        return guesses(codes, items, cost, self._traditional)


def guesses(codes: Codes, items: int, cost: float, traditional: bool | None) -> Iterator[Move]:
    """Moves to any of some characters, dearer where they are of the other script than the text."""
    wrong = np.zeros(len(codes), bool)
    if traditional is not None:
        wrong = (characters().bits[codes] & (SIMPLIFIED if traditional else TRADITIONAL)) != 0
    for part, more in ((codes[~wrong], 0.0), (codes[wrong], OTHER_SCRIPT)):
        if len(part):
            yield Move(part, items, cost + more)


class Utf8:
    """Items read as UTF-8; a mark may stand for one or two bytes of a character."""

    def __init__(self, items: Items, *, traditional: bool | None) -> None:
        self._row, self._mark = items.items, items.mark
        if traditional is None:
            data = bytes(item for item in items.items if item < LOST)
            traditional = script_of(data.decode("utf-8", "ignore"))
        self._traditional = traditional

    def moves(self, place: int) -> list[Move]:
        item = self._row[place]
        if item >= WHOLE:
            return [Move(_one(item - WHOLE), 1)]
        if item < 0x80:
            return [Move(_one(item), 1)]
        moves = [] if item in (LOST, SECOND) else list(self._exact(place, item))
        if item == LOST and place in self._mark:
            moves.append(Move(_one(self._mark[place]), 2))
        for known, items in self._slots(place, 3):
            lost = sum(byte is None for byte in known)
            if 0 < lost < 3:
                found = of_utf_8(known)
                moves += guesses(found, items, 0.0 if item == SECOND else LOSS, self._traditional)
        if 0xE0 <= item < 0xF0 and place + 1 < len(self._row) and self._row[place + 1] < LOST:
            found = of_utf_8((item, self._row[place + 1], None))
            moves += guesses(found, 2, HIDDEN, self._traditional)
        return moves

    def _exact(self, place: int, lead: int) -> Iterator[Move]:
        size = 2 if 0xC2 <= lead < 0xE0 else 3 if 0xE0 <= lead < 0xF0 else 4 if 0xF0 <= lead < 0xF5 else 0
        row = self._row[place : place + size]
        if size and len(row) == size and all(0x80 <= item < 0xC0 for item in row[1:]):
            text = bytes(row).decode("utf-8", "ignore")
            if text:
                yield Move(_one(ord(text)), size)

    def _slots(self, place: int, count: int) -> Iterator[tuple[tuple[int | None, ...], int]]:
        """Ways to take some bytes from the items: known ones, or None for a lost one, with items taken."""
        if count == 0:
            yield (), 0
            return
        item = self._row[place] if place < len(self._row) else WHOLE
        if 0x80 <= item < LOST:
            ways: tuple[tuple[int | None, int], ...] = ((item, 1),)
        elif item == LOST and place in self._mark:
            ways = ((None, 2), (None, 1))
        else:
            ways = ((None, 1),) if item == SECOND else ()
        for byte, items in ways:
            for rest, more in self._slots(place + items, count - 1):
                yield (byte, *rest), items + more


def _one(code: int) -> Codes:
    return np.asarray([code], np.uint32)


def suspects(text: str, model: ChineseModel) -> list[Span]:
    """Parts of lines with many odd characters close together, a broken annotation or a lost byte."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    odd = np.flatnonzero(model.odd[np.minimum(codes, np.uint32(0xFFFF))])
    last = LEAST_ODD - 1
    close = np.flatnonzero(odd[last:] - odd[: len(odd) - last] < WINDOW)
    places = {int(place) for step in range(LEAST_ODD) for place in odd[close + step]}
    if ")" in text and MAYBE_BROKEN.search(text):
        places |= {match.start() for match in BROKEN.finditer(text) if match[1] in model.readings}
    if "\ufffd" in text:
        places |= {match.start() for match in LOST_HALF.finditer(text)}
    spans: list[Span] = []
    for place in sorted(places):
        start = max(place - NEAR, text.rfind("\n", 0, place) + 1)
        line_end = text.find("\n", place)
        end = min(place + NEAR, line_end if line_end >= 0 else len(text))
        if spans and start <= spans[-1].end:
            spans[-1] = Span(spans[-1].start, max(end, spans[-1].end))
        else:
            spans.append(Span(start, end))
    return spans


def repair_chinese(text: str) -> str:
    """The text with what was misread in it restored; the text itself where nothing certain was found.

    What is restored tells more about what stands beside it: damaged texts are looked at again.
    """
    for _ in range(PASSES):
        before, text = text, _pass(text)
        if text == before:
            break
    return text


def _pass(text: str) -> str:
    spans = suspects(text, chinese())
    if not spans:
        return text
    edges = [0, *(edge for span in spans for edge in span), len(text)]
    around = [text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]
    traditional = script_of("".join(around))
    model = chinese().adapted(around)
    parts, looked = [around[0]], 0
    for span, after in zip(spans, around[1:], strict=True):
        piece = text[span.start : span.end]
        looked += len(piece)
        if looked <= MOST and (doubtful(piece, model) or CERTAIN.search(piece)):
            ends = not after or after.startswith("\n")
            piece = (
                restored(piece + "\n", model, traditional)[:-1]
                if ends
                else restored(piece, model, traditional)
            )
        parts += (piece, after)
    return "".join(parts)


def doubtful(text: str, model: ChineseModel) -> bool:
    """Whether a stretch of a few Chinese characters reads badly as it stands."""
    logs = model.logs(text)[[character >= "\u3000" for character in text]]
    return len(logs) < FEW or bool(np.convolve(logs, np.full(FEW, 1 / FEW), "valid").min() < DOUBTFUL)


def script_of(text: str) -> bool | None:
    """True: traditional characters prevail, False: simplified ones, None: neither by much."""
    difference = _count(text, TRADITIONAL) - _count(text, SIMPLIFIED)
    return difference > 0 if abs(difference) >= TELLING else None


def restored(text: str, model: ChineseModel, traditional: bool | None) -> str:
    """The likeliest of a span as it stands, read as UTF-8, and read as GBK with bytes lost."""
    items = itemise(text, model)
    as_it_stands = model.score(text)
    best, bar = text, as_it_stands + (0.0 if items.sound else MARGIN)
    readings: list[Reading] = [OneByteLate(items, traditional=traditional)]
    if _utf_8_share(items.items) > UTF_8_SHARE:
        readings.insert(0, Utf8(items, traditional=traditional))
    for reading in readings:
        found = likeliest(items.items, reading, model)
        if found is None or found[1] <= bar or found[0] == text:
            continue
        least = LIKELY if found[1] - as_it_stands < SURE else LIKELY_SURE
        if likely(found[0], text, model, traditional, least):
            best, bar = found
    return best


def _utf_8_share(items: list[int]) -> float:
    """The share of bytes beyond ASCII that stand in whole characters of UTF-8."""
    data = bytes(item if item < LOST else 0 for item in items)
    high = sum(byte >= 0x80 for byte in data)
    return 3 * len(UTF_8_CHARACTER.findall(data)) / high if high else 0.0


def likely(text: str, before: str, model: ChineseModel, traditional: bool | None, least: float) -> bool:
    """Whether a text reads as Chinese, its worst stretch too, and brings in nothing of the other script."""
    if traditional is not None:
        other = SIMPLIFIED if traditional else TRADITIONAL
        if _count(text, other) > _count(before, other):
            return False
    logs = model.logs(text)[[character >= "\u3000" for character in text]]
    if not len(logs):
        return False
    stretch = min(len(logs), STRETCH)
    return bool(np.convolve(logs, np.full(stretch, 1 / stretch), "valid").min() > least)


def _count(text: str, flag: int) -> int:
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return int(((characters().bits[np.minimum(codes, np.uint32(0xFFFF))] & flag) != 0).sum())
