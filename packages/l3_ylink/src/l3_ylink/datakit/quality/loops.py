"""The compiled loops over characters and units; `reference.py` says the same in plain Python.

All loops work on a batch of texts laid end to end as code points, a newline after each text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from .classes import APOSTROPHE, BULLET, LINE_BREAK, TERMINAL, WHITE, WORD
from .classes import SINGLE as SINGLE_UNIT

Array = npt.NDArray[Any]

SEED = np.uint64(0xCBF29CE484222325)
PRIME = np.uint64(0x9E3779B97F4A7C15)
ZERO = np.uint64(0)
ONE = np.uint64(1)
TEN = np.uint32(10)
WORD_BIT = np.uint32(WORD)
SINGLE_BIT = np.uint32(SINGLE_UNIT)
WHITE_BIT = np.uint32(WHITE)
BREAK_BIT = np.uint32(LINE_BREAK)
TERMINAL_BIT = np.uint32(TERMINAL)
BULLET_BIT = np.uint32(BULLET)
APOSTROPHE_BIT = np.uint32(APOSTROPHE)
LETTER_BIT = np.uint32(1)
CARRIAGE_RETURN = np.uint32(13)
DOT = np.uint32(ord("."))
DOTS = np.uint32(ord("…"))
SHORT_LINE = 30
TOP_GRAMS = 3
REPEATED_GRAMS = 6


@njit(cache=True, nogil=True, inline="always")
def _mix(value):  # type: ignore[no-untyped-def]
    """SplitMix64's finaliser."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@njit(cache=True, nogil=True)
def split(  # noqa: PLR0917 (compiled code takes arrays, by position)
    codes: Array,
    text_start: Array,
    kind: Array,
    bits: Array,
    lower: Array,
    histogram: Array,
    start: Array,
    end: Array,
    exact: Array,
    lowered: Array,
    alpha: Array,
    first_unit: Array,
) -> int:
    """Finds the units of all texts and counts the classes of their characters; returns how many units.

    `histogram` (texts x classes), `start` … `alpha` (room for as many units as characters) and
    `first_unit` (texts + 1) are filled.
    """
    largest = np.uint32(len(kind) - 1)
    count = 0
    for text in range(len(text_start) - 1):
        first_unit[text] = count
        last = text_start[text + 1] - 1
        inside = False
        has_letter = False
        one = SEED
        two = SEED
        for place in range(text_start[text], last):
            code = codes[place]
            known = min(code, largest)
            k = kind[known]
            histogram[text, k] += 1
            flags = bits[k]
            if flags & (WORD_BIT | SINGLE_BIT) == 0 and inside and flags & APOSTROPHE_BIT:
                following = bits[kind[min(codes[place + 1], largest)]]
                if place + 1 < last and following & WORD_BIT:
                    flags = WORD_BIT
            if flags & WORD_BIT:
                if not inside:
                    inside = True
                    has_letter = False
                    start[count] = place
                    one = SEED
                    two = SEED
                has_letter = has_letter or flags & LETTER_BIT != 0
                one = (one ^ np.uint64(code)) * PRIME
                two = (two ^ np.uint64(lower[known])) * PRIME
                continue
            if inside:
                inside = False
                end[count] = place
                exact[count] = _mix(one)
                lowered[count] = _mix(two)
                alpha[count] = has_letter
                count += 1
            if flags & SINGLE_BIT:
                start[count] = place
                end[count] = place + 1
                exact[count] = _mix((SEED ^ np.uint64(code)) * PRIME)
                lowered[count] = exact[count]
                alpha[count] = flags & LETTER_BIT != 0
                count += 1
        if inside:
            end[count] = last
            exact[count] = _mix(one)
            lowered[count] = _mix(two)
            alpha[count] = has_letter
            count += 1
    first_unit[len(text_start) - 1] = count
    return count


@njit(cache=True, nogil=True, inline="always")
def _seen(table, mask, key):  # type: ignore[no-untyped-def]
    """Puts a key into an open hash table of its size and says whether it was there."""
    if key == ZERO:
        key = ONE
    place = np.int64(key >> np.uint64(20)) & mask
    while table[place] != ZERO:
        if table[place] == key:
            return True
        place = (place + 1) & mask
    table[place] = key
    return False


@njit(cache=True, nogil=True, inline="always")
def _room(count):  # type: ignore[no-untyped-def]
    """The size of a hash table for some keys: a power of two, at most half full."""
    size = 8
    while size < 2 * count:
        size *= 2
    return size


LINE_COLUMNS = 15


@njit(cache=True, nogil=True)
def lines(  # noqa: C901, PLR0912, PLR0915 (one pass over the characters)
    codes: Array, text_start: Array, kind: Array, bits: Array, newlines: Array, out: Array
) -> None:
    """Counts about lines and paragraphs; `out` (texts x LINE_COLUMNS, zeros) is filled.

    Columns: 0 lines as split by runs of newlines, 1 of them seen before, 2 characters of those; 3 lines
    with something visible, 4 of them short, 5 ending like a sentence, 6 characters of those seen before;
    7 lines by `splitlines`, 8 beginning with a bullet, 9 ending with an ellipsis; 10 ellipses ("..." or
    "…"); 11 paragraphs, 12 of them seen before, 13 characters of those; 14 newlines.
    """
    largest = np.uint32(len(kind) - 1)
    most = 0
    for text in range(len(text_start) - 1):
        most = max(most, newlines[text])
    table = np.zeros(_room(most + 2), np.uint64)
    for text in range(len(text_start) - 1):
        first = text_start[text]
        last = text_start[text + 1] - 1
        if first == last:
            continue
        mask = _room(newlines[text] + 2) - 1
        table[: mask + 1] = ZERO
        value = SEED
        run = first
        visible = False
        line = first
        seen_at = -1  # the last visible character of the line
        bullet = False
        dots = 0
        for place in range(first, last + 1):
            code = codes[place]
            flags = bits[kind[min(code, largest)]]
            if code == TEN:
                out[text, 14] += 1
                if place > run:
                    again = _seen(table, mask, value)
                    out[text, 0] += 1
                    if again:
                        out[text, 1] += 1
                        out[text, 2] += place - run
                    if visible:
                        out[text, 3] += 1
                        if place - run <= SHORT_LINE:
                            out[text, 4] += 1
                        if bits[kind[min(codes[place - 1], largest)]] & TERMINAL_BIT:
                            out[text, 5] += 1
                        if again:
                            out[text, 6] += place - run
                run = place + 1
                value = SEED
                visible = False
            else:
                value = (value ^ np.uint64(code)) * PRIME
            if flags & BREAK_BIT:
                after_return = code == TEN and place > first and codes[place - 1] == CARRIAGE_RETURN
                if after_return and line == place:
                    line = place + 1
                elif place < last or place > line:
                    out[text, 7] += 1
                    out[text, 8] += bullet
                    if seen_at >= 0 and (
                        codes[seen_at] == DOTS
                        or (
                            seen_at - line >= 2
                            and codes[seen_at] == DOT
                            and codes[seen_at - 1] == DOT
                            and codes[seen_at - 2] == DOT
                        )
                    ):
                        out[text, 9] += 1
                    line = place + 1
                seen_at = -1
                bullet = False
            if flags & WHITE_BIT == 0:
                if seen_at < 0:
                    bullet = flags & BULLET_BIT != 0
                seen_at = place
                visible = True
            if code == DOT:
                dots += 1
                if dots == 3:
                    out[text, 10] += 1
                    dots = 0
            else:
                dots = 0
                if code == DOTS:
                    out[text, 10] += 1
        out[text, 14] -= 1  # the one that follows every text
        begins = codes[first] == TEN
        ends = codes[last - 1] == TEN
        out[text, 0] += np.int64(begins) + np.int64(ends)
        out[text, 1] += np.int64(begins and ends)
        _paragraphs(codes, first, last, kind, bits, table, mask, out[text])


@njit(cache=True, nogil=True)
def _paragraphs(codes, first, last, kind, bits, table, mask, out):  # type: ignore[no-untyped-def]
    largest = np.uint32(len(kind) - 1)
    while first < last and bits[kind[min(codes[first], largest)]] & WHITE_BIT:
        first += 1
    while last > first and bits[kind[min(codes[last - 1], largest)]] & WHITE_BIT:
        last -= 1
    table[: mask + 1] = ZERO
    out[11] = 1
    value = SEED
    begin = first
    place = first
    while place <= last:
        stop = place == last
        if not stop and codes[place] == TEN and codes[place + 1] == TEN:
            stop = True
        if stop:
            if _seen(table, mask, value):
                out[12] += 1
                out[13] += place - begin
            if place == last:
                break
            while codes[place] == TEN:
                place += 1
            out[11] += 1
            begin = place
            value = SEED
            continue
        value = (value ^ np.uint64(codes[place])) * PRIME
        place += 1


@njit(cache=True, nogil=True)
def repetition(exact: Array, length: Array, first_unit: Array, top: Array, repeated: Array) -> None:
    """Characters of each text's commonest 2-, 3-, 4-gram and of its repeated 5- to 10-grams.

    `top` (texts x 3): length of the commonest n-gram, its units joined by spaces, times its count; among
    equally common ones the first.  `repeated` (texts x 6): characters of n-grams seen before, reading on
    after each of them.  Both are zeros and are filled.
    """
    most = 0
    for text in range(len(first_unit) - 1):
        most = max(most, first_unit[text + 1] - first_unit[text])
    size = _room(most)
    table = np.zeros(size, np.uint64)
    counts = np.zeros(size, np.int32)
    places = np.zeros(size, np.int32)
    grams = np.empty(most, np.uint64)
    before = np.zeros(most + 1, np.int64)
    for text in range(len(first_unit) - 1):
        first = first_unit[text]
        units = first_unit[text + 1] - first
        if units < 2:
            continue
        mine = exact[first : first + units]
        for place in range(units):
            grams[place] = mine[place]
            before[place + 1] = before[place] + length[first + place]
        mask = _room(units) - 1
        several = True
        for n in range(2, min(4, units) + 1):
            _longer(grams, mine, n)
            if several:
                place, count = _commonest(grams, units - n + 1, table, counts, places, mask)
                several = count > 1
            else:
                place, count = 0, 1  # of grams that come once each, the first
            top[text, n - 2] = (before[place + n] - before[place] + n - 1) * count
        for n in range(5, min(10, units) + 1):
            _longer(grams, mine, n)
            repeated[text, n - 5] = _characters_again(grams, units - n + 1, before, n, table, mask)
            if repeated[text, n - 5] == 0:
                break  # without repeated n-grams there are no longer ones


@njit(cache=True, nogil=True, inline="always")
def _longer(grams, mine, n):  # type: ignore[no-untyped-def]
    """Makes hashes of n-grams out of those of (n-1)-grams."""
    for place in range(len(mine) - n + 1):
        grams[place] = grams[place] * PRIME + mine[place + n - 1]


@njit(cache=True, nogil=True)
def _commonest(grams, windows, table, counts, places, mask):  # type: ignore[no-untyped-def]
    """Where the commonest gram comes first, and how often it comes."""
    table[: mask + 1] = ZERO
    best = 0
    best_place = 0
    for place in range(windows):
        key = max(grams[place], ONE)
        slot = np.int64(_fold(key) & np.uint64(mask))
        while table[slot] not in (ZERO, key):
            slot = (slot + 1) & mask
        if table[slot] == ZERO:
            table[slot] = key
            counts[slot] = 0
            places[slot] = place
        counts[slot] += 1
        if counts[slot] > best or (counts[slot] == best and places[slot] < best_place):
            best = counts[slot]
            best_place = places[slot]
    return best_place, best


@njit(cache=True, nogil=True)
def _characters_again(grams, windows, before, n, table, mask):  # type: ignore[no-untyped-def]
    """Characters of grams seen before, reading on after each of them."""
    table[: mask + 1] = ZERO
    characters = 0
    place = 0
    while place < windows:
        if _seen(table, mask, _fold(grams[place])):
            characters += before[place + n] - before[place]
            place += n
        else:
            place += 1
    return characters


@njit(cache=True, nogil=True, inline="always")
def _fold(value):  # type: ignore[no-untyped-def]
    """Brings a polynomial hash's good high bits down; one to one."""
    return value ^ (value >> np.uint64(32))


@njit(cache=True, nogil=True)
def word_counts(
    exact: Array, lowered: Array, alpha: Array, first_unit: Array, stops: Array, lorem: Array, out: Array
) -> None:
    """Counts about units; `out` (texts x 4, zeros) is filled.

    Columns: 0 units with a letter, 1 stop words as written, counted once each, 2 stop words in any case,
    all of them, 3 different ones of these, 4 whether "lorem ipsum" is there.
    """
    for text in range(len(first_unit) - 1):
        written = 0
        different = 0
        previous = ZERO
        for place in range(first_unit[text], first_unit[text + 1]):
            out[text, 0] += alpha[place]
            small = lowered[place]
            for number in range(len(stops)):
                if small == stops[number]:
                    out[text, 2] += 1
                    different |= 1 << number
                    if exact[place] == small:
                        written |= 1 << number
            if small == lorem[1] and previous == lorem[0]:
                out[text, 4] = 1
            previous = small
        while written:
            out[text, 1] += written & 1
            written >>= 1
        while different:
            out[text, 3] += different & 1
            different >>= 1


@njit(cache=True, nogil=True)
def minima(hashes: Array, first_unit: Array, n: int, factors: Array, offsets: Array, rows: Array) -> None:
    """MinHash signatures of the shingles of `n` units; `rows` (texts x permutations, all ones) is filled.

    A text shorter than `n` units gives its single units.
    """
    for text in range(len(first_unit) - 1):
        first = first_unit[text]
        units = first_unit[text + 1] - first
        width = n if units >= n else 1
        row = rows[text]
        for place in range(first, first + units - width + 1):
            value = np.uint32(shingle(hashes, place, width) >> np.uint64(32))
            for k in range(len(factors)):
                drawn = np.uint32(np.uint32(value * factors[k]) + offsets[k])
                row[k] = min(row[k], drawn)


@njit(cache=True, nogil=True, inline="always")
def shingle(hashes, place, n):  # type: ignore[no-untyped-def]
    """The hash of `n` units from `place` on."""
    value = np.uint64(n)
    for k in range(n):
        value = (value + hashes[place + k]) * PRIME
    return _mix(value)


@njit(cache=True, nogil=True)
def shingles_of(hashes: Array, first_unit: Array, n: int, out: Array, edges: Array) -> int:
    """The upper 32 bits of all shingles' hashes, text after text; returns how many.  See `minima`."""
    count = 0
    for text in range(len(first_unit) - 1):
        edges[text] = count
        first = first_unit[text]
        units = first_unit[text + 1] - first
        width = n if units >= n else 1
        for place in range(first, first + units - width + 1):
            out[count] = np.uint32(shingle(hashes, place, width) >> np.uint64(32))
            count += 1
    edges[len(first_unit) - 1] = count
    return count


@njit(cache=True, nogil=True)
def common(one: Array, other: Array) -> int:
    """How many numbers two sorted arrays without repetition share."""
    i = 0
    j = 0
    count = 0
    while i < len(one) and j < len(other):
        if one[i] == other[j]:
            count += 1
            i += 1
            j += 1
        elif one[i] < other[j]:
            i += 1
        else:
            j += 1
    return count
