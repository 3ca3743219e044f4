"""The shipped scheduler as it is, without an oracle."""

from __future__ import annotations

from l2_aistation.core.policy import default_policies
from l2_aistation.core.policy.attained import LeastAttained
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


class OursAttained(Ours):
    """The same with the shipped policy of least attained service, which lets long runs make way."""

    name = "ours-attained"
    words = "the default policies and actions with least attained service, run times unknown"

    def open(self, world: World, remaining: Remaining) -> None:
        """Attained service counts after priority."""
        super().open(world, remaining)
        policies = list(self.policies)
        place = next(number for number, policy in enumerate(policies) if policy.name == "priority") + 1
        self.policies = (*policies[:place], LeastAttained(), *policies[place:])
