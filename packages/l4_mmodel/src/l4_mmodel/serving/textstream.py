"""Text as it is generated: whole characters only, and never a piece of a stop string.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

BROKEN = "\ufffd"


class Detokeniser:
    """Turns token ids into text piece by piece; an unfinished character waits for its rest."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self.decode = decode
        self.ids: list[int] = []
        self.start = 0  # where the window that is decoded begins
        self.shown = 0  # ids whose text has been given out

    def add(self, token: int) -> str:
        """The text that `token` completes."""
        self.ids.append(token)
        before = self.decode(self.ids[self.start : self.shown])
        now = self.decode(self.ids[self.start :])
        if now.endswith(BROKEN) or len(now) <= len(before):
            return ""
        self.start, self.shown = self.shown, len(self.ids)
        return now[len(before) :]

    def rest(self) -> str:
        """What is left at the end, broken characters included."""
        before = self.decode(self.ids[self.start : self.shown])
        now = self.decode(self.ids[self.start :])
        self.start = self.shown = len(self.ids)
        return now[len(before) :]


class StopFilter:
    """Holds back text that could be the beginning of a stop string."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = [stop for stop in stops if stop]
        self.held = ""
        self.stopped = False

    def add(self, text: str) -> str:
        """The text that may be shown now; after a stop string, nothing more."""
        if self.stopped:
            return ""
        self.held += text
        found = [at for stop in self.stops if (at := self.held.find(stop)) >= 0]
        if found:
            self.stopped = True
            shown, self.held = self.held[: min(found)], ""
            return shown
        keep = self._possible_start()
        shown = self.held[: len(self.held) - keep]
        self.held = self.held[len(self.held) - keep :]
        return shown

    def rest(self) -> str:
        """What was held back, once no more text comes."""
        shown, self.held = self.held, ""
        return shown

    def _possible_start(self) -> int:
        longest = 0
        for stop in self.stops:
            for size in range(min(len(stop) - 1, len(self.held)), longest, -1):
                if self.held.endswith(stop[:size]):
                    longest = size
                    break
        return longest
