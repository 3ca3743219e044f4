"""What a process that serves sets once, for short and even answers."""

from __future__ import annotations

import gc
import sys

SWITCH_S = 0.0005
"""How long a thread may keep the interpreter from the others: the scheduler and the answers share it."""

YOUNG_OBJECTS = 50_000
"""Ten thousand jobs are a million objects without a cycle among them: looking through all of them for
garbage stops the process for a tenth of a second, so it is done seldom."""


def tune() -> None:
    """Shorter turns of threads, rarer collections of cycles."""
    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(YOUNG_OBJECTS, 20, 500)
