"""A start that was promised to a job that has to wait."""

from __future__ import annotations

from dataclasses import dataclass

from .pool import Placement


@dataclass(frozen=True, slots=True)
class Promise:
    """By `at` the job starts on `placement`, kept for it; it is expected to hold it until `until`.

    Seconds since the epoch.  `firm` says that nothing but a lost node, a window or a job of higher
    right can break it: whoever holds the place now ends by a limit or may be evicted.
    """

    job: str
    at: float
    until: float
    placement: Placement
    firm: bool = True
