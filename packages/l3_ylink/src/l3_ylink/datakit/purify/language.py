"""Which language a text is in: scripts first, then a model that is in the package's wheel.

Chinese is told from its characters (a model for short byte n-grams mistakes commands and code between
them), and simplified from traditional by characters that only one of them writes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from l3_ylink.datakit.quality.characters import HAN, HANGUL, KANA, LATIN, LETTER, SIMPLIFIED, TRADITIONAL
from l3_ylink.datakit.quality.signals import stop_words
from l3_ylink.datakit.quality.units import Units

from .scripts import Chinese, cantonese_of, label

LETTERS_A_WORD = 5
"""A Chinese character says about as much as a word: letters of other scripts weigh a fifth."""

CHINESE_SHARE = 0.45
"""Weight of Chinese characters from which a text is Chinese, whatever commands and names are in it."""

STOP_SHARE = 0.08
LEAST_DIFFERENT = 5
ENGLISH = ("en", 1.0)
CHINESE = "zh"
CHINESE_CODES = ("zh", "wuu", "yue", "lzh")
NOT_CHINESE = re.compile("[\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef]+")
MODEL_CHARACTERS = 1_000


def identify(units: Units, texts: Sequence[str]) -> tuple[list[str], list[float]]:
    """Language ("en", "zh-Hans", "zh-Hant", "ja" …, "und" for no letters) and confidence of each text."""
    counts = np.stack(
        [units.count(flag) for flag in (HAN, KANA, HANGUL, LETTER, SIMPLIFIED, TRADITIONAL, LATIN)],
        axis=1,
    )
    english = _english(units).tolist()
    answers = [
        _by_script(row) or (ENGLISH if sure else _by_model(text, row))
        for text, row, sure in zip(texts, counts.tolist(), english, strict=True)
    ]
    answers = [
        (label(Chinese(row[0], row[4], row[5], *_cantonese(units, place))), score)
        if language == CHINESE
        else (language, score)
        for place, (row, (language, score)) in enumerate(zip(counts.tolist(), answers, strict=True))
    ]
    return [language for language, _ in answers], [round(float(score), 4) for _, score in answers]


def _english(units: Units) -> npt.NDArray[np.bool_]:
    """Texts that are English beyond doubt: no other language takes every twelfth word from these eight.

    It spares most English texts the model, which costs more than all other signals together.
    """
    total, different = stop_words(units)
    sure: npt.NDArray[np.bool_] = (different >= LEAST_DIFFERENT) & (
        total >= STOP_SHARE * np.diff(units.first_unit)
    )
    return sure


def _by_script(counts: list[int]) -> tuple[str, float] | None:
    han, kana, hangul, letters, *_ = counts
    if letters == 0:
        return "und", 0.0
    others = (letters - han - kana - hangul) / LETTERS_A_WORD
    weight = han + kana + hangul + others
    if hangul > 0.3 * weight:
        return "ko", hangul / weight
    if kana > 0.1 * (han + kana) and han + kana > 0.3 * weight:
        return "ja", (han + kana) / weight
    if han >= CHINESE_SHARE * weight:
        return CHINESE, han / weight
    return None


def _cantonese(units: Units, text: int) -> tuple[int, int]:
    """Characters of a text that only Cantonese writes, and how many different ones."""
    codes = units.codes[units.text_start[text] : units.text_start[text + 1]]
    found = codes[cantonese_of(codes)]
    return len(found), len(np.unique(found))


def _by_model(text: str, counts: list[int]) -> tuple[str, float]:
    """What the letters that are not Chinese say; the Chinese ones among them lower the confidence."""
    han, _, _, letters, *_ = counts
    others = (letters - han) / LETTERS_A_WORD
    rest = (
        NOT_CHINESE.sub(" ", text[: 4 * MODEL_CHARACTERS])[:MODEL_CHARACTERS]
        if han
        else text[:MODEL_CHARACTERS]
    )
    language, score = _model().classify(rest)
    if language in CHINESE_CODES:
        return "und", 0.0
    return str(language), float(score) * others / (others + han)


@cache
def _model() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
