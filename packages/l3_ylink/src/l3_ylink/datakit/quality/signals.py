"""Signals of a text: what the quality rules look at, measured for a whole batch at once.

Shares are between 0 and 1; counts are counts.  Repetition follows Rae et al. 2021 (Gopher, table A1):
the characters inside repeated n-grams, none counted twice, over the characters of all units.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .characters import DAMAGED, DIGIT, HAN, LETTER, NEWLINE, PUNCTUATION, SENTENCE_END, SPACE, SYMBOL
from .units import I64, U64, Units, split_units

F64 = npt.NDArray[np.float64]
Column = npt.NDArray[Any]

STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")
"""Gopher's English stop words."""

TOP_GRAMS = (2, 3, 4)
REPEATED_GRAMS = (5, 6, 7, 8, 9, 10)
BULLETS = "-*•‣◦●▪·–"
CHINESE_MARKS = "。！？；，、：…,.;:!?"
LINE_ENDS = ".!?。！？…\"'”’」』）)：:；;，,"
SHORT_LINE = 30

ADVERTS = re.compile(
    "代开发票|代办|加微信|加[Qq]{1,2}群?[:：]?\\d|微信号|扫码关注|点击购买|包邮|秒杀|优惠券|限时抢购|免费领取|在线客服|"
    "澳门|博彩|赌场|时时彩|六合彩|百家乐|老虎机|开奖结果|棋牌|投注|真人娱乐|娱乐城|北京赛车|彩票平台|私服|"
    "成人视频|一夜情|约炮|裸聊|催情|壮阳|人流医院|无痛人流|白癜风医院|男科医院|刷单|网赚|日赚|月入过万|贷款秒批|信用卡套现|"
    "友情链接|网站地图|版权所有.{0,12}备案|ICP备\\d|关键词排名|SEO优化|外链"
)
"""Advertising, gambling and search-engine spam in Chinese: one hit is a coincidence, several are not."""

LOREM = re.compile("lorem ipsum", re.IGNORECASE)


def measure(units: Units, texts: Sequence[str]) -> dict[str, Column]:
    """Every signal of every text: name -> one value a text."""
    columns: dict[str, Column] = {}
    columns.update(_characters(units))
    columns.update(_words(units))
    columns.update(_lines(units))
    columns.update(_repetition(units))
    han = columns["han"]
    columns["adverts"] = np.fromiter(
        (len(set(ADVERTS.findall(text))) if han[i] else 0 for i, text in enumerate(texts)),
        np.int64,
        len(texts),
    )
    columns["lorem_ipsum"] = np.fromiter((bool(LOREM.search(text)) for text in texts), np.int64, len(texts))
    return columns


def share(part: Column, whole: Column) -> F64:
    """part / whole, 0 where there is nothing; rounded, so that a stored value reads the same everywhere."""
    whole = np.asarray(whole, np.float64)
    result: F64 = np.zeros(len(whole))
    np.divide(part, whole, out=result, where=whole > 0)
    return np.round(result, 6, out=result)


def _characters(units: Units) -> dict[str, Column]:
    bits = units.bits
    total = np.diff(units.text_start) - 1
    letters = units.per_text((bits & LETTER) != 0)
    han = units.per_text((bits & HAN) != 0)
    visible = total - units.per_text((bits & SPACE) != 0) + 1  # the newline after a text is not its own
    marks = _any_of(units.codes, CHINESE_MARKS)
    return {
        "characters": total,
        "han": han,
        "han_share": share(han, letters),
        "letter_share": share(letters, visible),
        "digit_share": share(units.per_text((bits & DIGIT) != 0), visible),
        "symbol_share": share(units.per_text((bits & (SYMBOL | PUNCTUATION)) != 0), visible),
        "damaged_share": share(units.per_text((bits & DAMAGED) != 0), visible),
        "sentence_ends": units.per_text((bits & SENTENCE_END) != 0),
        "units_per_mark": share(np.diff(units.first_unit), units.per_text(marks) + 1),
    }


def _any_of(codes: npt.NDArray[np.uint32], characters: str) -> npt.NDArray[np.bool_]:
    """Which codes are among some characters: a few comparisons beat a sorted search."""
    found = np.zeros(len(codes), bool)
    for character in characters:
        found |= codes == ord(character)
    return found


def _words(units: Units) -> dict[str, Column]:
    count = np.diff(units.first_unit)
    letters = np.concatenate([np.zeros(1, np.int64), np.cumsum((units.bits & LETTER) != 0)])
    with_letter = letters[units.end] > letters[units.start]
    word = (units.bits[units.start] & HAN) == 0 if len(units.start) else np.zeros(0, bool)
    words = _sum_units(units, word)
    hashtags = units.per_text((units.codes == ord("#")) | (units.codes == ord("…")))
    return {
        "units": count,
        "words": words,
        "mean_word_length": share(_sum_units(units, np.where(word, units.length, 0)), words),
        "alpha_units": share(_sum_units(units, with_letter), count),
        "stop_words": stop_words(units)[0],
        "symbols_per_unit": share(hashtags, count),
    }


def _sum_units(units: Units, values: Column) -> I64:
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(values, dtype=np.int64)])
    return np.diff(sums[units.first_unit])


def stop_words(units: Units) -> tuple[I64, I64]:
    """How many units of each text are English stop words, and how many different ones."""
    total = np.zeros(units.texts, np.int64)
    different = np.zeros(units.texts, np.int64)
    for value in split_units([" ".join(STOP_WORDS)]).hash:
        count = _sum_units(units, units.hash == value)
        total += count
        different += count > 0
    return total, different


def _lines(units: Units) -> dict[str, Column]:
    """Lines with something on them: how they begin and end, how long they are, which repeat."""
    ends = np.flatnonzero((units.bits & NEWLINE) != 0)
    visible = np.flatnonzero((units.bits & SPACE) == 0)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])
    first = np.searchsorted(visible, starts)
    last = np.searchsorted(visible, ends) - 1
    filled = last >= first
    begin, final = visible[first[filled]], visible[last[filled]]
    text_of = np.searchsorted(units.text_start, begin, side="right") - 1
    length = final - begin + 1

    def sums(values: Column) -> F64:
        return np.bincount(text_of, values.astype(np.float64), units.texts).astype(np.float64)

    count = sums(np.ones(len(begin)))
    worded = np.searchsorted(units.start, final, side="right") > np.searchsorted(units.start, begin)
    repeated = _repeats(units.span_hash(begin, final + 1), text_of) & worded  # not the rules of a table
    characters = sums(length)
    newlines = units.per_text((units.bits & NEWLINE) != 0) - 1
    dots = (units.codes[final] == ord("…")) | _three_dots(units, final)
    return {
        "lines": count.astype(np.int64),
        "short_lines": share(sums(length <= SHORT_LINE), count),
        "bullet_lines": share(sums(_any_of(units.codes[begin], BULLETS)), count),
        "ellipsis_lines": share(sums(dots), count),
        "ended_lines": share(sums(_any_of(units.codes[final], LINE_ENDS)), count),
        "repeated_lines": share(sums(repeated), count),
        "repeated_line_characters": share(sums(np.where(repeated, length, 0)), characters),
        "newlines_per_unit": share(newlines, np.diff(units.first_unit)),
    }


def _three_dots(units: Units, final: I64) -> npt.NDArray[np.bool_]:
    dot = units.codes == ord(".")
    three: npt.NDArray[np.bool_] = dot[final] & dot[np.maximum(final - 1, 0)] & dot[np.maximum(final - 2, 0)]
    return three


def _repeats(hashes: U64, text_of: Column) -> npt.NDArray[np.bool_]:
    """Which items repeat an earlier one of the same text."""
    keys = hashes ^ (text_of.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    repeated = np.zeros(len(keys), bool)
    repeated[order[1:][ordered[1:] == ordered[:-1]]] = True
    return repeated


def _repetition(units: Units) -> dict[str, Column]:
    total = _sum_units(units, units.length)
    length_before = np.concatenate([np.zeros(1, np.int64), np.cumsum(units.length)])
    columns = {}
    for n in TOP_GRAMS:
        columns[f"top_{n}_gram"] = share(_top_gram(units, n, length_before), total)
    for n in REPEATED_GRAMS:
        columns[f"repeated_{n}_grams"] = share(_repeated_grams(units, n), total)
    return columns


def _top_gram(units: Units, n: int, length_before: I64) -> I64:
    """Characters covered by each text's most frequent n-gram, if it comes more than once."""
    hashes, first = units.grams(n)
    best = np.zeros(units.texts, np.int64)
    ordered, index = _sorted_by_text(units, hashes, first)
    if not len(ordered):
        return best
    new = np.flatnonzero(np.concatenate([np.ones(1, bool), ordered[1:] != ordered[:-1]]))
    count = np.diff(np.concatenate([new, [len(ordered)]]))
    several = count > 1
    example = index[new[several]]
    covered = count[several] * (length_before[example + n] - length_before[example])
    np.maximum.at(best, units.text_of[example], covered)
    return best


def _repeated_grams(units: Units, n: int) -> I64:
    """Characters inside n-grams that came before in the same text, none counted twice."""
    hashes, first = units.grams(n)
    ordered, index = _sorted_by_text(units, hashes, first)
    again = index[1:][ordered[1:] == ordered[:-1]]
    edges = np.zeros(len(units.hash) + 1, np.int32)
    edges[again] += 1
    edges[again + n] -= 1  # indices are unique, so that += needs no np.add.at
    covered = np.cumsum(edges[:-1]) > 0
    return _sum_units(units, np.where(covered, units.length, 0))


def _sorted_by_text(units: Units, hashes: U64, first: I64) -> tuple[U64, I64]:
    """n-grams of the batch in an order that puts equal ones of one text together, earliest first.

    The key's low bits carry the position, so that one sort of numbers (vectorised in NumPy) does the
    work of a stable argsort; what is left of the hash is 40 bits and more.
    """
    position_bits = max(len(units.hash), 2).bit_length()
    low = np.uint64((1 << position_bits) - 1)
    keys = hashes ^ (units.text_of[first].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    keys = np.sort((keys & ~low) | first.astype(np.uint64))
    return keys & ~low, (keys & low).astype(np.int64)
