"""Helios (SenseTime, 2020; CC-BY-4.0): the quota of each virtual cluster, day by day.

`date, vc, gpus`; the row `vc = total` is the whole cluster and is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from l2_aistation.simulator.jobs import QuotaChange

from .rows import Row

COLUMNS = ("date", "vc", "gpus")
DAY_S = 86_400.0


def changes(rows: Iterable[Row], start_s: float) -> list[QuotaChange]:
    """The days on which a quota differs from the day before."""
    days: list[tuple[date, str, int]] = []
    for row in rows:
        try:
            day = date.fromisoformat(row.text("date"))
        except ValueError:
            raise row.wrong("date", "is no date like 2020-04-01") from None
        if row.text("vc") != "total":
            days.append((day, row.text("vc"), row.whole("gpus", most=1 << 20)))
    days.sort()
    first = days[0][0] if days else date.min
    last: dict[str, int] = {}
    found = []
    for day, queue, accelerators in days:
        if last.get(queue) != accelerators:
            last[queue] = accelerators
            found.append(QuotaChange(start_s + (day - first).days * DAY_S, queue, accelerators))
    return found
