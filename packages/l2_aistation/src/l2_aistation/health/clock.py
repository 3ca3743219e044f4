"""Whether the kernel's clock is disciplined: adjtimex(2)."""

from __future__ import annotations

import ctypes

from .finding import ABSENT, OK, WARN, Finding

NAME = "clock"
UNSYNCHRONISED = 0x0040  # STA_UNSYNC, <sys/timex.h>
MOST_ERROR_S = 1.0
_ERROR = 5  # TIME_ERROR


class _Timex(ctypes.Structure):
    """The head of struct timex; the rest is room."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    )


def look() -> list[Finding]:
    """The clock of this machine."""
    timex = _Timex()
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    if state < 0:
        return [Finding(NAME, ABSENT, evidence="adjtimex is not allowed here")]
    return judge(state, timex.status, timex.maxerror / 1e6)


def judge(state: int, status: int, most_error_s: float) -> list[Finding]:
    """A clock that nothing disciplines drifts; logs of several nodes cannot be put in order then."""
    if state == _ERROR or status & UNSYNCHRONISED:
        return [Finding(NAME, WARN, evidence="not synchronised: start chrony or systemd-timesyncd")]
    if most_error_s > MOST_ERROR_S:
        return [Finding(NAME, WARN, evidence=f"may be wrong by {most_error_s:.1f} s")]
    return [Finding(NAME, OK, evidence=f"within {1000 * most_error_s:.0f} ms")]
