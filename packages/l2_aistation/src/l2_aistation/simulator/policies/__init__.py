"""Schemes: what a simulation schedules by.  One file each, or a third party's class.

A scheme says which policies and actions `core.cycle.run` is given, and hears what happens to jobs.
Third parties register a class under the entry point group `l2_aistation.simulated_policies`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import entry_points

from l2_aistation._kit.problems import BadInput
from l2_aistation.core.cycle import Action, Session
from l2_aistation.core.policy import Policy
from l2_aistation.core.world import Job, World

GROUP = "l2_aistation.simulated_policies"
BUILT_IN = {
    "fifo": "fifo:Fifo",
    "easy": "easy:Easy",
    "sjf": "sjf:ShortestFirst",
    "tiresias": "tiresias:Tiresias",
    "ours": "ours:Ours",
}

Remaining = Callable[[str], float]
"""Seconds that a job would still run: an oracle's knowledge."""


class Scheme:
    """The base of all schemes.  `oracle` says that it knows run times, which no real scheduler does."""

    name = ""
    words = ""
    oracle = False
    policies: Sequence[Policy] = ()
    actions: Sequence[Action] | None = None

    def open(self, world: World, remaining: Remaining) -> None:
        """A simulation begins."""
        self.world = world
        self.remaining = remaining

    def queued(self, job: Job) -> None:
        """A job waits from now on: it arrived, or was evicted."""

    def started(self, job: Job, now: float) -> None:
        """A job has its place and runs."""

    def ended(self, job: Job, now: float) -> None:
        """A job completed."""

    def session(self, now: float, only: frozenset[str] | None) -> Session:
        """The session of one cycle; `only` as in `core.cycle.Session`."""
        return Session(self.world, now, self.policies, only, words=False)

    def wake(self, now: float) -> float | None:  # noqa: ARG002 (for those that need it)
        """When it wants a cycle though nothing happens; None: never."""
        return None


def names() -> list[str]:
    """The schemes that can be had."""
    return [*BUILT_IN, *sorted(found.name for found in entry_points(group=GROUP))]


def scheme(name: str) -> Scheme:
    """A new scheme by its name; `BadInput` names those there are."""
    if name in BUILT_IN:
        module, _, kind = BUILT_IN[name].partition(":")
        made: Scheme = getattr(import_module(f"{__name__}.{module}"), kind)()
        return made
    for found in entry_points(group=GROUP):
        if found.name == name:
            third: Scheme = found.load()()
            return third
    raise BadInput(f"there is no policy {name!r}", field="policy", do=f"use one of {', '.join(names())}")
