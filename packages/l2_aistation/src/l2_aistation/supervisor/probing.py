"""Probes in the background of an agent: what is bad on its node goes out with the heartbeats."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from l2_aistation.health import Finding, look
from l2_aistation.health.finding import BAD

log = logging.getLogger(__name__)

PROBES = ("kernel", "gpu", "fabric", "storage")
FIRST_S, EVERY_S = 60.0, 300.0
"""When the first look comes, and the next ones: a look costs about a second of CPU time."""

Look = Callable[[Sequence[str], Sequence[Path]], list[Finding]]


class Probing:
    """Looks every few minutes, in a thread that dies with the agent; the beats never wait for a probe."""

    def __init__(self, folders: Sequence[Path], look: Look = look) -> None:
        self._folders, self._look = folders, look
        self._faults: tuple[str, ...] = ()
        self._closing = threading.Event()

    def start(self) -> None:
        """Begins to look."""
        threading.Thread(target=self._run, name="probing", daemon=True).start()

    def stop(self) -> None:
        """No further look begins."""
        self._closing.set()

    def faults(self) -> tuple[str, ...]:
        """What was bad at the last look, as `label entity: evidence`."""
        return self._faults

    def once(self) -> None:
        """One look."""
        bad = [finding for finding in self._look(PROBES, self._folders) if finding.state == BAD]
        self._faults = tuple(sorted({words_of(finding) for finding in bad}))

    def _run(self) -> None:
        pause_s = FIRST_S
        while not self._closing.wait(pause_s):
            pause_s = EVERY_S
            try:
                self.once()
            except Exception:  # the agent lives on without probes
                log.exception("the probes could not be run")


def words_of(finding: Finding) -> str:
    """A finding in one line; `label_of` reads its label again."""
    place = f" {finding.entity}" if finding.entity else ""
    return f"{finding.label}{place}: {finding.evidence}"


def label_of(words: str) -> str:
    """The label that a fault begins with."""
    return words.split(" ", 1)[0].rstrip(":")
