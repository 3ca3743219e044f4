"""What a model's answer holds: JSON among other words, code between fences, a score."""

from __future__ import annotations

import json
import re
from typing import Any

FENCE = re.compile(r"```[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:```|\Z)", re.DOTALL)
THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


def spoken(text: str) -> str:
    """The answer without what a reasoning model thought before it."""
    return THOUGHT.sub("", text).strip()


def json_in(text: str) -> Any:
    """The first JSON object or array in a text; None where there is none."""
    decoder = json.JSONDecoder(strict=False)
    for match in re.finditer(r"[\[{]", text):
        try:
            value, _ = decoder.raw_decode(text, match.start())
        except ValueError:
            continue
        except RecursionError:
            return None
        if value or isinstance(value, dict):
            return value
    return None


def code_blocks(text: str, language: str = "python") -> list[str]:
    """Code between fences: that of the language, or that of no language."""
    return [code for name, code in FENCE.findall(text) if name.lower() in (language, language[:2], "")]


def score_in(text: str, most: int) -> float | None:
    """A score from 0 to `most`: `score` of a JSON object, else the first number after the word; or None."""
    value = json_in(text)
    found = value.get("score") if isinstance(value, dict) else None
    if not isinstance(found, int | float) or isinstance(found, bool):
        word = re.search(r"(?:score|rating|评分|得分|分数)\D{0,12}?(\d+(?:\.\d+)?)", text, re.IGNORECASE)
        found = float(word[1]) if word else None
    return float(found) if found is not None and 0 <= found <= most else None
