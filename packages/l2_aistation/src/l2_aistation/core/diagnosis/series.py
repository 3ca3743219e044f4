"""Faults without an error text: they show in the loss and the step time that a program prints."""

from __future__ import annotations

import re
from collections import deque
from statistics import median

_NUMBER = r"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?"
_LOSS = re.compile(rf"loss['\"]?\s*[:=]\s*({_NUMBER})")
_STEP_TIME = re.compile(rf"(?:(?<=elapsed )time per iteration|(?<=step[ _])time)[^:=]*[:=]\s*({_NUMBER})")
_TOOK = re.compile(rf"(?<=[Ii]teration )took\s+({_NUMBER})|(?<=[Ss]tep )took\s+({_NUMBER})")

_SPIKE_FACTOR = 1.3
_SLOWER_FACTOR = 1.04
_STEADY_SPREAD = 1.02
_FEWEST = 5


class Series:
    """Collects what a stream prints each step and finds a spike or a lasting slow-down."""

    def __init__(self) -> None:
        self._losses: deque[tuple[float, str]] = deque(maxlen=64)
        self._times: deque[tuple[float, str]] = deque(maxlen=64)
        self._spike: str | None = None
        self._slow: str | None = None

    def read(self, line: str) -> None:
        """Takes in what a line prints of loss and step time, if anything."""
        loss = _number_after(_LOSS, "loss", line)
        if loss is not None:
            self._losses.append((loss, line))
            self._spike = self._spike or self._spiked()
        time = _number_after(_STEP_TIME, "time", line) or _number_after(_TOOK, "took", line)
        if time is not None:
            self._times.append((time, line))
            self._slow = self._slow or self._slower()

    def _spiked(self) -> str | None:
        """Two values in a row far above the band of those before."""
        if len(self._losses) < 4 or min(self._losses[-2][0], self._losses[-1][0]) <= self._losses[-3][0]:
            return None  # the cheap look first: nearly every line ends here
        *before, first, second = self._losses
        band = [value for value, _line in before[-20:]]
        highest, middle = max(band), median(band)
        limit = highest + (_SPIKE_FACTOR - 1) * max(middle, 0.0)
        settled = highest <= 2 * middle  # the first steps of a training fall steeply
        return first[1] if settled and middle > 0 and min(first[0], second[0]) > limit else None

    def _slower(self) -> str | None:
        """The last steps all slower than a steady beginning."""
        if len(self._times) < _FEWEST or self._times[-1][0] <= _SLOWER_FACTOR * self._times[0][0]:
            return None
        values = [value for value, _line in self._times]
        third = max(2, len(values) // 3)
        early, late = values[:third], values[-third:]
        spread, slower = max(early) / min(early), min(late) / max(early)
        clear = (spread <= _STEADY_SPREAD and slower > _SLOWER_FACTOR) or (spread <= 1.25 and slower > 1.5)
        return self._times[-third][1] if clear else None

    def findings(self) -> list[tuple[str, int, str]]:
        """Label, weight and the line where it began."""
        found = []
        if self._spike is not None:
            found.append(("loss_spike", 75, self._spike))
        if self._slow is not None:
            found.append(("straggler", 15, self._slow))
        return found


def _number_after(pattern: re.Pattern[str], word: str, line: str) -> float | None:
    """The number of the first match; a pattern is tried only where its word stands."""
    at = line.find(word)
    while at >= 0:
        whole = at == 0 or not (line[at - 1].isalnum() or line[at - 1] == "_") or word in ("time", "took")
        if whole and (found := pattern.match(line, at)):
            return float(next(filter(None, found.groups())))
        at = line.find(word, at + 1)
    return None
