"""The waterfall: what is left after each step, in documents and in bytes, by step and by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from l3_ylink.documents import StepCount

BAR_HEIGHT = 26
WIDTH = 640


@dataclass(frozen=True)
class Bar:
    """One bar: what is left after a step, and what the step took."""

    label: str
    kept: int
    dropped: int
    kept_width: float
    dropped_width: float
    y: int


class Stage(NamedTuple):
    """A stage of the funnel: some steps in a row."""

    name: str
    steps: tuple[str, ...]
    seen: int
    kept: int
    seen_bytes: int
    kept_bytes: int


def waterfall(funnel: Sequence[StepCount]) -> list[Bar]:
    """Bars from the funnel, widths in units of `WIDTH`."""
    most = max((step.seen for step in funnel), default=0) or 1
    return [
        Bar(
            step.step,
            step.kept,
            step.seen - step.kept,
            round(WIDTH * step.kept / most, 1),
            round(WIDTH * (step.seen - step.kept) / most, 1),
            number * BAR_HEIGHT,
        )
        for number, step in enumerate(funnel)
    ]


def stages(
    funnel: Sequence[StepCount], names: Mapping[str, Sequence[str]], left: Sequence[int]
) -> list[Stage]:
    """The funnel by stage; `left[n]`: bytes of text before step n, with one more entry for the end."""
    place = {step.step: number for number, step in enumerate(funnel)}
    found = []
    for name, steps in names.items():
        mine = [place[step] for step in steps if step in place]
        if mine:
            first, last = mine[0], mine[-1]
            found.append(
                Stage(name, tuple(steps), funnel[first].seen, funnel[last].kept, left[first], left[last + 1])
            )
    return found
