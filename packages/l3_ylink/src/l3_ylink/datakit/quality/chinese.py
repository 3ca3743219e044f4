"""Signals for Chinese pages: advertising, gambling and search-engine spam, and lists of menu items.

Words of spam are looked for where their first two characters stand side by side, so that clean text costs
next to nothing.  Short lines without a mark make a menu; poems (lines of one length, or with their marks)
and dialogue (speaker and colon, quotation marks) do not count.
"""

# ruff: noqa: E501 (lists of words)

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from .characters import HAN, NEWLINE, SPACE
from .units import Units

Column = npt.NDArray[Any]

SPAM: dict[str, str] = {
    "advert": (
        "加微信 微信号 加QQ QQ群 扫码关注 点击购买 立即购买 包邮 秒杀 优惠券 限时抢购 限时特价 免费领取 在线客服 全国包邮 厂家直销 "
        "招商加盟 加盟热线 咨询热线 货到付款 代开发票 增值税发票 办理文凭 代办资质 代写论文 办证刻章"
    ),
    "gambling": (
        "澳门博彩 澳门赌场 博彩公司 网上赌场 真钱 时时彩 六合彩 百家乐 老虎机 开奖结果 棋牌游戏 体育投注 真人娱乐 娱乐城 北京赛车 "
        "彩票平台 彩金 送彩金 葡京 威尼斯人 太阳城 皇冠足球 足球投注 捕鱼游戏 幸运飞艇 注册送 首存"
    ),
    "adult": "成人视频 成人电影 一夜情 约炮 裸聊 催情 壮阳 迷药 三级片 激情小说 上门服务 同城约会 楼凤",
    "medical": "人流医院 无痛人流 白癜风医院 男科医院 妇科医院 牛皮癣医院 癫痫医院 祖传秘方 包治百病 延时喷剂 增大增粗",
    "money": "刷单 网赚 日赚 月入过万 贷款秒批 信用卡套现 套现 黑户贷款 无抵押贷款 配资 内幕消息 稳赚不赔 躺赚 私服 外挂辅助",
    "seo": "友情链接 网站地图 版权所有 ICP备 关键词排名 SEO优化 外链 网站优化 百度快照 站长统计 转载请注明 本站所有 设为首页 加入收藏",
}
"""Kind of spam -> its words.  One hit is a coincidence, several different ones are not."""

FRAGMENT = 10
"""Characters up to which a line without a mark is a menu item, a heading or a verse."""

VERSE_LEAST, VERSE_SHARE, VERSE_LINES = 5, 0.5, 4
MARKS = "，。！？；：、…,.!?;:“”「」『』"
LONGEST = 64


class _Words(NamedTuple):
    pattern: re.Pattern[str]
    first: npt.NDArray[np.bool_]
    second: npt.NDArray[np.bool_]


@cache
def _words() -> _Words:
    words = sorted(
        {word for row in SPAM.values() for word in row.split()}, key=lambda word: (-len(word), word)
    )
    first, second = np.zeros(0x10000, bool), np.zeros(0x10000, bool)
    first[[ord(word[0]) for word in words]] = True
    second[[ord(word[1]) for word in words]] = True
    return _Words(re.compile("|".join(map(re.escape, words))), first, second)


@cache
def _marks() -> npt.NDArray[np.bool_]:
    marks = np.zeros(0x10000, bool)
    marks[[ord(mark) for mark in MARKS]] = True
    return marks


def chinese_signals(units: Units, texts: Sequence[str], han: Column) -> dict[str, Column]:
    """`adverts`: different words of spam; `advert_share`: their share of Chinese characters; `fragment_lines`."""
    count, covered = _spam(units, texts, han)
    fragments = np.zeros(len(texts))
    _fragments(units.codes, units.bits, units.text_start, _marks(), fragments)
    share = np.zeros(len(texts))
    np.divide(covered, han, out=share, where=han > 0)
    return {
        "adverts": count,
        "advert_share": np.round(share, 6),
        "fragment_lines": np.where(han > 0, np.round(fragments, 6), 0.0),
    }


def _spam(units: Units, texts: Sequence[str], han: Column) -> tuple[Column, Column]:
    """How many different words of spam each text has, and how many characters they take."""
    words = _words()
    codes = np.minimum(units.codes, np.uint32(0xFFFF))
    places = np.flatnonzero(words.first[codes[:-1]] & words.second[codes[1:]])
    text_of = np.searchsorted(units.text_start, places, side="right") - 1
    found: dict[int, set[str]] = {}
    covered = np.zeros(len(texts))
    done: dict[int, int] = {}
    for place, number in zip((places - units.text_start[text_of]).tolist(), text_of.tolist(), strict=True):
        inside = not han[number] or place < done.get(number, 0)
        match = None if inside else words.pattern.match(texts[number], place)
        if match:
            done[number] = match.end()
            found.setdefault(number, set()).add(match[0])
            covered[number] += len(match[0])
    count = np.fromiter((len(found.get(number, ())) for number in range(len(texts))), np.int64, len(texts))
    return count, covered


@numba.njit(cache=True)
def _line(
    codes: npt.NDArray[np.uint32],
    bits: npt.NDArray[np.uint16],
    start: int,
    end: int,
    marks: npt.NDArray[np.bool_],
) -> tuple[int, int, bool]:
    """Visible characters and Chinese ones of a line, and whether there is a mark in it."""
    visible, han, mark = 0, 0, False
    for place in range(start, end):
        if bits[place] & SPACE:
            continue
        visible += 1
        if bits[place] & HAN:
            han += 1
        elif codes[place] < 0x10000 and marks[codes[place]]:
            mark = True
    return visible, han, mark


@numba.njit(cache=True)
def _fragments(
    codes: npt.NDArray[np.uint32],
    bits: npt.NDArray[np.uint16],
    text_start: npt.NDArray[np.int64],
    marks: npt.NDArray[np.bool_],
    shares: npt.NDArray[np.float64],
) -> None:
    """The share of each text's lines that are short and without a mark; none in a poem."""
    for number in range(len(shares)):
        lines, fragments = 0, 0
        lengths = np.zeros(LONGEST, np.int64)
        start = text_start[number]
        for place in range(text_start[number], text_start[number + 1]):
            if not bits[place] & NEWLINE:
                continue
            visible, han, mark = _line(codes, bits, start, place, marks)
            start = place + 1
            lines += visible > 0
            fragments += han > 0 and visible <= FRAGMENT and not mark
            lengths[min(visible, LONGEST - 1)] += han > 0 and not mark
        verse = lines >= VERSE_LINES and lengths[VERSE_LEAST : LONGEST - 1].max() >= VERSE_SHARE * lines
        shares[number] = 0.0 if verse or lines == 0 else fragments / lines


def fragments_reference(text: str) -> float:
    """`fragment_lines` of one text in plain Python: what the loop above does."""
    shapes = []
    for line in text.split("\n"):
        seen = [character for character in line if not character.isspace()]
        han = sum("\u3400" <= character <= "\u9fff" for character in seen)
        if seen:
            shapes.append((len(seen), han, any(character in MARKS for character in seen)))
    if not shapes:
        return 0.0
    bare = [
        visible for visible, han, mark in shapes if han and not mark and VERSE_LEAST <= visible < LONGEST - 1
    ]
    commonest = max((bare.count(length) for length in set(bare)), default=0)
    if len(shapes) >= VERSE_LINES and commonest >= VERSE_SHARE * len(shapes):
        return 0.0
    short = sum(1 for visible, han, mark in shapes if han and visible <= FRAGMENT and not mark)
    return round(short / len(shapes), 6)
