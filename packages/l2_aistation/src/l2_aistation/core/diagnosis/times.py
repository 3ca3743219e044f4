"""Time stamps in log lines.  Two moments compare only where both are of one clock."""

from __future__ import annotations

import re
from datetime import datetime
from typing import NamedTuple


class Moment(NamedTuple):
    """Seconds on a `clock`: wall (a full date), year (no year is written), boot (the kernel's uptime)."""

    clock: str
    seconds: float


_BOOT = re.compile(r"^(?:\S+\s+){0,5}\[\s*(\d+\.\d{6})\]")
_ISO = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?")
_C_TIME = re.compile(r"\[(\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4})\]")
_SYSLOG = re.compile(r"^(\w{3} [ \d]\d \d\d:\d\d:\d\d) ")
_GLOG = re.compile(r"\b[IWEF](\d{3,4}) (\d\d):(\d\d):(\d\d\.\d+)")


def moment_of(line: str) -> Moment | None:
    """The moment that a line carries, None where it has none that is known."""
    if found := _BOOT.search(line):
        return Moment("boot", float(found[1]))
    if found := _ISO.search(line):
        return _parsed("wall", found[1].replace("T", " "), "%Y-%m-%d %H:%M:%S", float(f"0.{found[2] or 0}"))
    if found := _C_TIME.search(line):
        return _parsed("wall", " ".join(found[1].split()), "%a %b %d %H:%M:%S %Y")
    if found := _SYSLOG.search(line):
        return _parsed("year", f"2000 {' '.join(found[1].split())}", "%Y %b %d %H:%M:%S")
    if found := _GLOG.search(line):
        month, day = divmod(int(found[1]), 100)
        clock = int(found[2]) * 3600 + int(found[3]) * 60 + float(found[4])
        return Moment("year", (month * 31 + day) * 86400 + clock)
    return None


def _parsed(clock: str, text: str, form: str, fraction: float = 0.0) -> Moment | None:
    try:
        return Moment(clock, _seconds(datetime.strptime(text, form)) + fraction)  # noqa: DTZ007 (compared on one clock)
    except ValueError:
        return None


def _seconds(when: datetime) -> float:
    return (when - datetime(1970, 1, 1)).total_seconds()  # noqa: DTZ001 (compared on one clock)
