"""What podsys needs from the world: a way to reach hosts, and something that sets them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Upload:
    """One file for a host: a name, and its bytes or the local file that holds them."""

    name: str
    content: bytes | Path


@dataclass(frozen=True)
class Work:
    """What to set on one host: for each role its variables, in the order of applying."""

    host: str
    roles: Mapping[str, dict[str, Any]]


class Session(Protocol):
    """A program on a host that answers JSON lines."""

    def ask(self, order: dict[str, Any], timeout_s: float = 30) -> dict[str, Any]:
        """The answer to one order; `Failed` when the program has died or takes too long."""
        ...


class Transport(Protocol):
    """Runs programs on hosts (by host id).  A host that cannot be reached raises `Unavailable`."""

    def run(self, host: str, program: str, timeout_s: float) -> str:
        """Feeds a Python program to the host's Python and returns what it prints."""
        ...

    def upload(self, host: str, folder: str, files: Iterable[Upload]) -> None:
        """Puts files, private to the login's root, into a folder of the host."""
        ...

    def session(self, host: str, program: str) -> AbstractContextManager[Session]:
        """A running program that answers orders."""
        ...

    def close(self) -> None:
        """Ends kept connections."""
        ...


class Executor(Protocol):
    """Sets what differs on (host, role) pairs.

    `report(host, role, event, detail)` is called with event `start`, `done` or `fail` for each pair
    that is worked on; a role is not tried on a host after one has failed there.
    """

    def apply(self, work: list[Work], report: Callable[[str, str, str, str], None]) -> None:
        """Does the work; returns when all pairs are done or failed."""
        ...


class NodeSource(Protocol):
    """Where a cluster's hosts come from, as a node-inventory document."""

    def node_inventory(self, tenant: str | None) -> dict[str, Any]:
        """The `ogai.node-inventory/v1` document of a tenant, or of the site."""
        ...
