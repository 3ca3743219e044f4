"""Secrets that a service wrote into its own log are taken out before its lines go anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterable

from .model import Facts

HIDDEN = "***"
SHORTEST = 4
"""Shorter words would hide half of every log."""


def hide_words(facts: Facts, words: Iterable[str]) -> Facts:
    """`facts` with `***` for the words in the logs of units, also where Python or JSON quoted them."""
    forms = {
        form
        for word in words
        if len(word) >= SHORTEST
        for form in (
            word,
            repr(word)[1:-1],
            json.dumps(word)[1:-1],
            json.dumps(word, ensure_ascii=False)[1:-1],
        )
    }
    if not forms or not any(unit.log for unit in facts.answers.units.values()):
        return facts

    def hidden(line: str) -> str:
        for form in sorted(forms, key=len, reverse=True):
            line = line.replace(form, HIDDEN)
        return line

    units = {
        name: unit.model_copy(update={"log": [hidden(line) for line in unit.log]})
        for name, unit in facts.answers.units.items()
    }
    return facts.model_copy(update={"answers": facts.answers.model_copy(update={"units": units})})
