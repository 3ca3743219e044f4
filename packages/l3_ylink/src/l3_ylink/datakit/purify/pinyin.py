"""Pinyin that a converter left behind the characters it changed: 國(guó) becomes 國.

A converter to traditional characters annotates what it changed and nothing else.  So annotations go where
a text has several of them, each the reading of the character before it, nearly all of them behind
traditional characters; a gloss in a text for readers (胥（xū）) stays.
"""

from __future__ import annotations

import re
from typing import Literal

from .chinese import chinese

Policy = Literal["converted", "all", "off"]

ANNOTATION = re.compile(r"([\u3400-\u9fff])\(([a-züāáǎàēéěèīíǐìōóǒòūúǔùǖǘǚǜêńňǹḿ]{1,6})\)")
LEAST = 3
CONVERTED = 0.8


def strip(text: str, policy: Policy = "converted") -> tuple[str, int]:
    """The text without its annotations, and how many there were."""
    if policy == "off" or not ANNOTATION.search(text):
        return text, 0
    model = chinese()
    right = converted = 0
    for match in ANNOTATION.finditer(text):
        if match[1] in model.readings.get(match[2], ""):
            right += 1
            converted += model.fold[ord(match[1])] != ord(match[1])
    if right < LEAST or (policy == "converted" and converted < CONVERTED * right):
        return text, 0

    def without(match: re.Match[str]) -> str:
        return match[1] if match[1] in model.readings.get(match[2], "") else match[0]

    return ANNOTATION.sub(without, text), right
