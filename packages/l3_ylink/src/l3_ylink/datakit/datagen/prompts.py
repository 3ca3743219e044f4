"""What the model is asked, in English and in Chinese (`prompts.yaml`), and answers that are none."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

Language = Literal["en", "zh"]

REFUSALS = (
    "i'm sorry",
    "i am sorry",
    "i cannot",
    "i can't",
    "as an ai",
    "as a language model",
    "抱歉",
    "对不起",
    "很遗憾",
    "作为一个人工智能",
    "作为一个ai",
    "作为ai",
    "我无法",
    "我不能",
)
"""How an answer begins that declines."""

LEAKS = ("new task", "rewritten", "rewrite the task", "改写", "新任务", "新的任务")
"""What shows that an evolved task repeats its prompt."""


@cache
def _texts() -> dict[str, Any]:
    value: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
    return value


def prompt(name: str, language: Language, **parts: object) -> str:
    """A prompt with its parts."""
    text: str = _texts()["prompts"][name][language]
    return text.format(**parts)


def depths(language: Language) -> list[str]:
    """The ways to make a task harder."""
    found: list[str] = _texts()["depths"][language]
    return found
