"""Decisions run again from their journal: each has to come out the same, bit for bit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .cycle import Action, Session, run
from .digest import digest
from .journal import Recorder, restore, snapshot, tell
from .policy import Policy
from .world import World

__all__ = ["Difference", "Recorder", "digest", "replay", "restore", "snapshot"]


@dataclass(frozen=True, slots=True)
class Difference:
    """A cycle that decided otherwise when it was run again."""

    number: int
    now: float
    expected: str
    found: str


def replay(
    world: World,
    entries: Iterable[Mapping[str, Any]],
    policies: Sequence[Policy],
    actions: Sequence[Action] | None = None,
) -> list[Difference]:
    """Runs the cycles of a journal again from the world of its snapshot; those that decided otherwise."""
    differences = []
    for number, entry in enumerate(entries):
        tell(world, entry["told"])
        only = None if entry["only"] is None else frozenset(entry["only"])
        session = run(Session(world, entry["now"], policies, only), actions)
        found = digest(session, session.statement.commit())
        if found != entry["digest"]:
            differences.append(Difference(number, entry["now"], entry["digest"], found))
    return differences
