"""How choices are laid out so that a prompt is encoded once for all of them.  Pure.

Several items lie one after another in a single row.  Within an item the choices follow the prompt;
each choice sees the prompt and itself, nothing else:

    prompt A | choice A1 | choice A2 | prompt B | choice B1 …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Tokens:
    """An item in tokens: the prompt, and each choice that may follow it (none empty)."""

    prompt: list[int]
    choices: list[list[int]]

    @property
    def width(self) -> int:
        """Positions that the item takes in a row: a choice's last token is only predicted."""
        return len(self.prompt) + sum(len(choice) - 1 for choice in self.choices)


@dataclass
class Pack:
    """A row: its token ids and positions, which span each token may see, and what is to be read off.

    `reads` holds, for each choice in order, the row positions whose predictions are its tokens.
    """

    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    segments: list[tuple[int, int, int]] = field(default_factory=list)
    reads: list[list[int]] = field(default_factory=list)
    targets: list[list[int]] = field(default_factory=list)
    items: list[int] = field(default_factory=list)

    def add(self, number: int, item: Tokens, offset: int) -> None:
        """Appends an item; `offset` is the length of what was encoded before the row."""
        start, length = len(self.ids), len(item.prompt)
        self.items.append(number)
        self.ids += item.prompt
        self.positions += range(offset, offset + length)
        end = start + length
        self.segments.append((start, end, start))
        for choice in item.choices:
            at = len(self.ids)
            fed = choice[:-1]
            self.ids += fed
            self.positions += range(offset + length, offset + length + len(fed))
            self.segments.append((at, at + len(fed), start))
            self.reads.append([end - 1, *range(at, at + len(fed))])
            self.targets.append(choice)

    def mask(self, offset: int) -> npt.NDArray[np.bool_]:
        """Which of (what was encoded before + the row) each token sees: [row, offset + row]."""
        size = len(self.ids)
        seen = np.zeros((size, offset + size), dtype=bool)
        seen[:, :offset] = True
        prompt = (0, 0)
        for start, end, item_start in self.segments:
            if start == item_start:
                prompt = (start, end)
            else:
                seen[start:end, offset + prompt[0] : offset + prompt[1]] = True
            span = end - start
            seen[start:end, offset + start : offset + end] = np.tri(span, dtype=bool)
        return seen


def packs(items: Sequence[Tokens], *, offset: int, row: int) -> list[Pack]:
    """The items in rows of about `row` tokens, in order; an item longer than that has its own."""
    rows: list[Pack] = []
    for number, item in enumerate(items):
        if not rows or len(rows[-1].ids) + item.width > row:
            rows.append(Pack())
        rows[-1].add(number, item, offset)
    return rows


def common_prefix(prompts: Sequence[Sequence[int]]) -> int:
    """How many tokens all prompts share, leaving at least one token to each."""
    if len(prompts) < 2:
        return 0
    low, high = min(map(list, prompts)), max(map(list, prompts))
    shared = 0
    while shared < min(len(low), len(high)) and low[shared] == high[shared]:
        shared += 1
    return max(0, min(shared, min(map(len, prompts)) - 1))
