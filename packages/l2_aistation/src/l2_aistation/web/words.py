"""Sentences of the scheduler that come filled in, said in the reader's language."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from .messages import MESSAGES

PLACES = re.compile(r"\\\{(needed|free|unit|of)\\\}")


@functools.cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """How each sentence with something to fill in is recognised; the most telling first."""
    templates = sorted((text for text in MESSAGES if "{" in text), key=lambda text: (-len(text), text))
    return [
        (re.compile(PLACES.sub(lambda found: f"(?P<{found[1]}>.+?)", re.escape(text))), text)
        for text in templates
    ]


@functools.lru_cache(maxsize=4096)
def _recognised(words: str) -> tuple[str, tuple[tuple[str, str], ...]] | None:
    for pattern, template in _patterns():
        found = pattern.fullmatch(words)
        if found is not None:
            return template, tuple(found.groupdict().items())
    return None


def sentence(t: Callable[[str], str], words: str) -> str:
    """`words` in the language of `t`; as they are where they are nobody's template."""
    if words in MESSAGES:
        return t(words)
    known = _recognised(words)
    if known is None:
        return words
    template, values = known
    return t(template).format(**{name: _value(t, name, value) for name, value in values})


def _value(t: Callable[[str], str], name: str, value: str) -> str:
    """What was filled in: units are words, of which a model's name may stand before the last."""
    head, space, last = value.rpartition(" ")
    return f"{head}{space}{t(last)}" if name == "unit" and value not in MESSAGES else t(value)
