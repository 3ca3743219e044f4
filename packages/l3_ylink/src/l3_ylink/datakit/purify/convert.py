"""Traditional and simplified Chinese, by OpenCC's phrase tables, with a region's own words if wanted.

It comes after the repair of mojibake: conversion of damaged text destroys the evidence.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from l3_ylink._kit.problems import BadInput

from .scripts import label_text

Target = Literal["zh-Hans", "zh-Hant", "zh-TW", "zh-HK"]

CONFIGURATIONS: dict[tuple[Target, bool], tuple[str, str]] = {
    ("zh-Hans", False): ("", "t2s"),
    ("zh-Hans", True): ("", "tw2sp"),
    ("zh-Hant", False): ("s2t", ""),
    ("zh-Hant", True): ("s2t", ""),
    ("zh-TW", False): ("s2tw", "t2tw"),
    ("zh-TW", True): ("s2twp", "t2tw"),
    ("zh-HK", False): ("s2hk", "t2hk"),
    ("zh-HK", True): ("s2hk", "t2hk"),
}
"""Target and phrases -> OpenCC's configuration for simplified and for traditional texts; "": as it is."""

HAN = re.compile("[\u3400-\u9fff]")


def convert(text: str, to: Target, *, phrases: bool = False) -> str:
    """A Chinese text in the target's script; any other text as it is.  Idempotent."""
    if not HAN.search(text):
        return text
    label = label_text(text)
    if label is None:
        return text
    simplified, traditional = CONFIGURATIONS[to, phrases]
    if label == "zh-mixed":
        steps = [simplified, traditional]
    else:
        steps = [simplified if label == "zh-Hans" else traditional]
    for name in filter(None, steps):
        text = _converter(name)(text)
    return text


@cache
def _converter(name: str):  # type: ignore[no-untyped-def]
    try:
        import opencc
    except ModuleNotFoundError as error:
        raise BadInput(
            "the step convert needs opencc", field="steps.convert", do="pip install opencc"
        ) from error
    return opencc.OpenCC(name).convert
