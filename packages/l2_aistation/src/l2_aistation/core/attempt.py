"""One try of a gang: who started, who ended how, what was lost, how far it came."""

from __future__ import annotations

from dataclasses import dataclass, field

from .healing import Evidence, LostNode, RankExit, Stall
from .pool import Slot
from .states import AttemptState


@dataclass(slots=True)
class Attempt:
    """An attempt in memory; the store keeps all of it, so that evidence outlives the platform."""

    job: str
    number: int
    slots: list[Slot]
    master_port: int
    created_at: float
    state: AttemptState = AttemptState.STARTING
    started_at: float | None = None
    ended_at: float | None = None
    cause: str | None = None
    first_step: int | None = None
    last_step: int | None = None
    checkpoint_step: int | None = None
    checkpoint_at: float | None = None
    resumed_from: int | None = None
    lost_steps: int = 0
    rollback: tuple[int, int] | None = None
    """The step it must go back to, and how many steps' data it passes over."""
    replaced: dict[str, str] = field(default_factory=dict)
    started: set[int] = field(default_factory=set)
    exits: dict[int, RankExit] = field(default_factory=dict)
    stalls: list[Stall] = field(default_factory=list)
    lost: dict[str, LostNode] = field(default_factory=dict)
    quiet: set[str] = field(default_factory=set)
    fault_at: float | None = None
    held_at: float | None = None
    why: str = ""
    held: dict[str, float] = field(default_factory=dict)
    """Accelerators by model, for metering; written once."""
    version: int = 1

    @property
    def nodes(self) -> list[str]:
        """Its nodes in the order of the ranks."""
        return list(dict.fromkeys(slot.node for slot in self.slots))

    @property
    def running(self) -> bool:
        """Whether every rank has been seen to start."""
        return len(self.started) == len(self.slots)

    @property
    def finished(self) -> bool:
        """Whether every rank ended with 0."""
        return len(self.exits) == len(self.slots) and all(item.code == 0 for item in self.exits.values())

    def all_quiet(self) -> bool:
        """Whether no rank can be alive: each node said so or is lost."""
        return all(node in self.quiet or node in self.lost for node in self.nodes)

    def evidence(self) -> Evidence:
        """What is known about its end, in time order."""
        return Evidence(
            job=self.job,
            attempt=self.number,
            world_size=len(self.slots),
            exits=tuple(sorted(self.exits.values(), key=lambda item: (item.at, item.rank))),
            stalls=tuple(self.stalls),
            lost=tuple(self.lost.values()),
            started=self.started_at is not None,
            last_step=self.last_step,
        )
