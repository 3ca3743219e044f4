"""`aistation replay`: the decisions since the last snapshot run again beside the running platform."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from l2_aistation._kit.problems import NotFound
from l2_aistation.core.replay import replay, restore

from .loop import Service
from .times import moment

PIECE = 1000
MOST_SHOWN = 100


def replay_decisions(service: Service) -> dict[str, Any]:
    """How many cycles there are, and those that decide otherwise when they are run again (none should)."""
    row = service.store.snapshot()
    if row is None:
        raise NotFound("there is no snapshot of decisions yet", do="try again in a second")
    cycles = Counted(_entries(service, row["seq"]))
    differences = replay(restore(json.loads(row["body"])), cycles, service.cycles.policies)
    return {
        "since": moment(row["at"]),
        "cycles": cycles.count,
        "same": not differences,
        "differences": [
            {
                "number": item.number,
                "at": moment(item.now),
                "expected": item.expected,
                "found": item.found,
            }
            for item in differences[:MOST_SHOWN]
        ],
    }


class Counted:
    """An iterator that knows how many it has given."""

    def __init__(self, entries: Iterator[Mapping[str, Any]]) -> None:
        self.entries = entries
        self.count = 0

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        for entry in self.entries:
            self.count += 1
            yield entry


def _entries(service: Service, after: int) -> Iterator[Mapping[str, Any]]:
    while rows := service.store.journal(after, PIECE):
        for row in rows:
            yield row["entries"]
        after = rows[-1]["seq"]
