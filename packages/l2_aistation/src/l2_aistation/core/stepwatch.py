"""Who makes progress: hang and NaN from the steps that ranks report.  Pure; times are passed in."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

FEWEST_STEPS = 5
"""Below so many intervals nothing is learned yet."""

_LEARNED_FLOOR_S = 30.0
_LEARNED_FACTOR = 10.0
_NAN_IN_A_ROW = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a living rank: `kind` is hang or nan."""

    rank: int
    kind: str
    evidence: str


@dataclass(slots=True)
class _Rank:
    step: int
    at: float
    intervals: deque[float] = field(default_factory=lambda: deque(maxlen=64))
    not_finite: int = 0


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
            known.not_finite = 0 if math.isfinite(loss) else known.not_finite + 1

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
        found = []
        for rank, known in sorted(self._ranks.items(), key=lambda item: (item[1].step, item[0])):
            limit = self.limit_s(rank)
            silent = now - known.at
            if limit is not None and silent > limit:
                found.append(
                    Finding(
                        rank,
                        "hang",
                        f"no step for {silent:.1f} s after step {known.step} (limit {limit:.1f} s)",
                    )
                )
            if known.not_finite >= _NAN_IN_A_ROW:
                found.append(
                    Finding(
                        rank, "nan", f"loss is not finite in {known.not_finite} steps up to step {known.step}"
                    )
                )
        fresh = [item for item in found if (item.rank, item.kind) not in self._told]
        self._told.update((item.rank, item.kind) for item in fresh)
        return fresh
