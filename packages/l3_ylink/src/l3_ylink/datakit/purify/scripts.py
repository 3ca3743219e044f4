"""Which Chinese a text is in: simplified, traditional, both mixed, or written Cantonese.

Simplified and traditional are told from characters that only one of them has; Cantonese from characters
that only it writes (嘅, 喺, 唔, 佢 …), of which it cannot do without for three lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from l3_ylink.datakit.quality.characters import (
    HAN,
    KANA,
    SIMPLIFIED,
    TRADITIONAL,
    characters,
    codes_of,
    table_index,
)

CANTONESE = "嘅喺佢啲冇嚟哋嘢咗嗰噉攞嘥瞓喎啱揾搵"
LEAST_CANTONESE = 3
CANTONESE_SHARE = 0.015
"""Share of Chinese characters
that marks of Cantonese must be to make a text Cantonese; it has 0.05 to 0.15."""

MIXED_LEAST = 5
MIXED_SHARE = 0.2
"""Share of the rarer script among telling characters from which a text is mixed."""

FLAGS = (HAN, KANA, SIMPLIFIED, TRADITIONAL)


class Chinese(NamedTuple):
    """Characters of a text that tell its script."""

    han: int
    simplified: int
    traditional: int
    cantonese: int
    different: int = 2


def label(counts: Chinese) -> str:
    """ "zh-Hans", "zh-Hant", "zh-mixed" or "yue" for a text that is Chinese."""
    han, simplified, traditional, cantonese, different = counts
    if cantonese >= LEAST_CANTONESE and different >= 2 and cantonese >= CANTONESE_SHARE * han:
        return "yue"
    rarer, telling = min(simplified, traditional), simplified + traditional
    if rarer >= MIXED_LEAST and rarer >= MIXED_SHARE * telling:
        return "zh-mixed"
    return "zh-Hant" if traditional > simplified else "zh-Hans"


@cache
def _cantonese() -> npt.NDArray[np.bool_]:
    marks = np.zeros(0x10000, bool)
    marks[[ord(character) for character in CANTONESE]] = True
    return marks


def cantonese_of(codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """Which characters only Cantonese writes."""
    return _cantonese()[np.minimum(codes, np.uint32(0xFFFF))]


def label_text(text: str) -> str | None:
    """The label of one text by itself; None where it has no Chinese characters, or kana among them."""
    codes = codes_of(text)
    bits = characters().bits[table_index(codes)]
    han, kana, simplified, traditional = (int(((bits & flag) != 0).sum()) for flag in FLAGS)
    if not han or kana > 0.1 * han:
        return None
    marks = codes[cantonese_of(codes)]
    return label(Chinese(han, simplified, traditional, len(marks), len(np.unique(marks))))


def label_texts(texts: Sequence[str]) -> list[str | None]:
    """The labels of some texts."""
    return [label_text(text) for text in texts]
