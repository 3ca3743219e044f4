"""The shipped scheduler as it is: default policies and actions, no oracle."""

from __future__ import annotations

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
