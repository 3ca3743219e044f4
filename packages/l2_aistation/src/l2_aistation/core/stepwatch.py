"""Hangs, slow steps and spoilt losses, from what ranks report.  Pure; times are passed in."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from statistics import median

FEWEST_STEPS = 5
"""Below so many intervals nothing is learned yet."""

_LEARNED_FLOOR_S = 30.0
_LEARNED_FACTOR = 10.0
_NAN_IN_A_ROW = 3
_SPIKE_FACTOR = 1.3
_SPIKES_IN_A_ROW = 2
_SLOW_FACTOR = 1.5
_RECENT = 16
"""Of the last 64 steps, so many are compared with those before."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a living rank: `kind` is hang, nan, spike or slow."""

    rank: int
    kind: str
    evidence: str


@dataclass(slots=True)
class _Rank:
    step: int
    at: float
    intervals: deque[float] = field(default_factory=lambda: deque(maxlen=64))
    not_finite: int = 0
    losses: deque[float] = field(default_factory=lambda: deque(maxlen=32))
    spikes: int = 0

    def lose(self, loss: float) -> None:
        """Takes in a loss: not finite, or far above the band of those before, or one of them."""
        if not math.isfinite(loss):
            self.not_finite += 1
            return
        self.not_finite = 0
        if self._jumped(loss):
            self.spikes += 1
        else:
            self.spikes = 0
            self.losses.append(loss)

    def _jumped(self, loss: float) -> bool:
        """Above the highest of the last losses by 30 % of their median, once they have settled."""
        if len(self.losses) < FEWEST_STEPS or loss <= self.losses[-1]:
            return False
        highest, middle = max(self.losses), median(self.losses)
        return middle > 0 and highest <= 2 * middle and loss > highest + (_SPIKE_FACTOR - 1) * middle

    def not_finite_words(self) -> str:
        """What to say of losses that are no numbers, nothing while they are."""
        if self.not_finite < _NAN_IN_A_ROW:
            return ""
        return f"loss is not finite in {self.not_finite} steps up to step {self.step}"

    def spike_words(self) -> str:
        """What to say of losses that jumped."""
        if self.spikes < _SPIKES_IN_A_ROW:
            return ""
        return f"loss is far above {max(self.losses):.4g} in {self.spikes} steps up to step {self.step}"

    def slow_words(self) -> str:
        """What to say of steps that became slower and stay so, in the median."""
        times = list(self.intervals)
        if len(times) < 3 * _RECENT:
            return ""
        before, recent = times[:-_RECENT], times[-_RECENT:]
        steady = median(before)
        if not steady > 0 or median(recent) < _SLOW_FACTOR * steady or min(recent) <= steady:
            return ""
        ratio = median(recent) / steady
        return f"the last {_RECENT} steps up to step {self.step} took {ratio:.1f} times as long"


class StepWatch:
    """Watches the ranks of one attempt on one node.

    `hang_s` is the silence that counts as a hang once a rank has reported a step.  Without it the
    limit is learned: ten times the longest of the last 64 steps, at least 30 s.
    """

    def __init__(self, hang_s: float | None = None) -> None:
        self._hang_s = hang_s
        self._ranks: dict[int, _Rank] = {}
        self._told: set[tuple[int, str]] = set()

    def step(self, rank: int, number: int, at: float, loss: float | None = None) -> None:
        """A rank reported a step."""
        known = self._ranks.get(rank)
        if known is None:
            known = self._ranks[rank] = _Rank(number, at)
        elif at > known.at:
            known.intervals.append(at - known.at)
            known.step, known.at = number, at
        if loss is not None:
            known.lose(loss)

    def limit_s(self, rank: int) -> float | None:
        """After so much silence the rank hangs; None while nothing is learned."""
        if self._hang_s is not None:
            return self._hang_s
        intervals = self._ranks[rank].intervals
        if len(intervals) < FEWEST_STEPS:
            return None
        return max(_LEARNED_FLOOR_S, _LEARNED_FACTOR * max(intervals))

    def findings(self, now: float) -> list[Finding]:
        """What is wrong now; each thing is told once.  The rank furthest behind comes first."""
        ranks = sorted(self._ranks.items(), key=lambda item: (item[1].step, item[0]))
        found = [
            Finding(rank, kind, words)
            for rank, known in ranks
            for kind, words in (
                ("hang", self._silence(rank, now)),
                ("nan", known.not_finite_words()),
                ("spike", known.spike_words()),
                ("slow", known.slow_words()),
            )
            if words
        ]
        fresh = [item for item in found if (item.rank, item.kind) not in self._told]
        self._told.update((item.rank, item.kind) for item in fresh)
        return fresh

    def _silence(self, rank: int, now: float) -> str:
        known, limit = self._ranks[rank], self.limit_s(rank)
        silent = now - known.at
        if limit is None or silent <= limit:
            return ""
        return f"no step for {silent:.1f} s after step {known.step} (limit {limit:.1f} s)"
