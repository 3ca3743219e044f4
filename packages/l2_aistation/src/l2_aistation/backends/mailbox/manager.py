"""What the engine needs of a workload manager."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from l2_aistation.core.events import StartTasks
from l2_aistation.supervisor.mailbox import Box


class Key(NamedTuple):
    """An attempt's part on a node."""

    node: str
    job: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Ticket:
    """What the manager knows of an order; `why` in its own words."""

    id: str
    state: Literal["waiting", "running", "over"]
    why: str = ""


class Manager(Protocol):
    """A workload manager.  Its calls raise when it does not answer; they are made again."""

    name: str

    def submit(self, start: StartTasks, box: Box) -> None:
        """Orders a warden for this start on exactly its node; `tickets` shows it from then on."""

    def tickets(self) -> Mapping[Key, Ticket]:
        """The orders that it remembers, those that ended a while ago included."""

    def tend(self) -> None:
        """What the manager must do by itself each round, before it is asked for `tickets`."""

    def cancel(self, ids: Iterable[str]) -> None:
        """Ends orders; those that are over do no harm."""

    def nodes(self) -> Mapping[str, str]:
        """The nodes that answer, with what changes when one starts anew (a boot time)."""

    def unfit(self, start: StartTasks) -> str:
        """Why this manager can never start it, "" where it can."""
