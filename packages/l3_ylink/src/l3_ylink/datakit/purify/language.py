"""Which language a text is in: scripts first, then a model (CLD2) that needs no network.

Chinese is told from its characters (a model of n-grams mistakes commands and code between them), and its
kinds by characters that only one of them writes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from l3_ylink.datakit.quality.characters import HAN, HANGUL, KANA, LETTER, SIMPLIFIED, TRADITIONAL
from l3_ylink.datakit.quality.units import Units

from .scripts import Chinese, cantonese_of, label

LETTERS_A_WORD = 5
"""A Chinese character says about as much as a word: letters of other scripts weigh a fifth."""

CHINESE_SHARE = 0.45
"""Weight of Chinese characters from which a text is Chinese, whatever commands and names are in it."""

CHINESE = "zh"
NAMES = {"iw": "he", "jw": "jv", "in": "id", "mo": "ro", "sh": "sr"}
"""Codes that the model still writes as they were before they were renamed."""

CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
NOT_CHINESE = re.compile("[\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef]+")
MODEL_CHARACTERS = 1_000


def identify(units: Units, texts: Sequence[str]) -> tuple[list[str], list[float]]:
    """Language ("en", "zh-Hans", "zh-Hant", "ja" …, "und" for no letters) and confidence of each text."""
    counts = np.stack(
        [units.count(flag) for flag in (HAN, KANA, HANGUL, LETTER, SIMPLIFIED, TRADITIONAL)],
        axis=1,
    )
    answers = [
        _by_script(row) or _by_model(text, row) for text, row in zip(texts, counts.tolist(), strict=True)
    ]
    answers = [
        (label(Chinese(row[0], row[4], row[5], *_cantonese(units, place))), score)
        if language == CHINESE
        else (language, score)
        for place, (row, (language, score)) in enumerate(zip(counts.tolist(), answers, strict=True))
    ]
    return [language for language, _ in answers], [round(float(score), 4) for _, score in answers]


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
    import pycld2  # type: ignore[import-untyped]

    han, _, _, letters, *_ = counts
    others = (letters - han) / LETTERS_A_WORD
    rest = NOT_CHINESE.sub(" ", text[: 4 * MODEL_CHARACTERS]) if han else text
    known = CONTROL.sub(" ", rest[:MODEL_CHARACTERS]).encode("utf-8", "replace")
    try:
        (_, language, percent, _), *_ = pycld2.detect(known, bestEffort=True)[2]
    except pycld2.error:  # characters that its Unicode does not know
        return "und", 0.0
    if language == "un" or language.startswith("zh"):
        return "und", 0.0
    return NAMES.get(language, str(language)), percent / 100 * others / (others + han)
