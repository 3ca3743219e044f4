"""The shipped scheduler as it is, without an oracle."""

from __future__ import annotations

from l2_aistation.core.bounds import next_wake
from l2_aistation.core.policy import default_policies
from l2_aistation.core.world import World

from . import Remaining, Scheme


class Ours(Scheme):
    """What `aistation serve` decides."""

    name = "ours"
    words = "the default policies and actions, run times unknown"

    def open(self, world: World, remaining: Remaining) -> None:
        """As the service starts: fresh policies."""
        super().open(world, remaining)
        self.policies = default_policies()

    def wake(self, now: float) -> float | None:
        """When a promise is due or a window opens or closes."""
        return next_wake(self.world, now)
