"""What the platform needs from below: a cluster to pool, and an engine that starts tasks on nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from .core.events import Command, Event
from .core.pool import ClusterFacts

EventSink = Callable[[Sequence[Event]], None]
"""Takes events; when it returns they are durable and the engine may forget them.

It may be called from any thread, blocks for a commit, and raises when the store does not answer: the
engine then keeps the events and hands them over again.
"""


class Engine(Protocol):
    """Starts, watches and ends the tasks of attempts on nodes.

    A backend offers `create(settings) -> Engine` and passes `l2_aistation.testing`'s kit.
    """

    name: str

    def open(self, sink: EventSink) -> None:
        """Begins to deliver events, those of tasks that lived through a restart included."""

    def send(self, command: Command) -> None:
        """Hands a command to its node and returns at once.

        Sent again it does no harm.  A node that does not answer is no error here: the platform
        sees its heartbeats stop.
        """

    def close(self) -> None:
        """Stops delivering events and frees what this process holds; tasks go on."""


class ClusterSource(Protocol):
    """Where the pool comes from: L1's report, a document, this machine."""

    def cluster(self) -> ClusterFacts:
        """The nodes, their accelerators and their places in the network."""


class PowerSource(Protocol):
    """Optional evidence about a silent node, for example from L0."""

    def power(self, node: str) -> str | None:
        """`on`, `off`, or None when nobody can tell."""
