"""What queues held over the time before: a running mean in which the past fades by half-lives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .amount import Amount

HALF_LIFE_S = 86_400.0
"""Seconds after which held time counts half."""

NOTHING = (0.0, 0.0, 0.0)


@dataclass(slots=True)
class Decay:
    """For each queue, the mean of what it held: accelerators' thousandths, cores' thousandths, bytes.

    Exact for amounts that stay the same between two calls of `advance`: the mean of a constant moves
    towards it by 1 - 2^(-seconds / half-life).
    """

    half_life_s: float = HALF_LIFE_S
    at: float | None = None
    means: dict[str, tuple[float, float, float]] = field(default_factory=dict)

    def advance(self, now: float, held: Mapping[str, Amount]) -> None:
        """Adds the time since the last call, in which `held` was held."""
        before, self.at = self.at, now if self.at is None else max(now, self.at)
        if before is None or now <= before:
            return
        keep = 0.5 ** ((now - before) / self.half_life_s)
        for name in self.means.keys() | held.keys():
            amount = held.get(name)
            new = NOTHING if amount is None else _triple(amount)
            old = self.means.get(name, NOTHING)
            if new != NOTHING or old != NOTHING:
                self.means[name] = (
                    new[0] + (old[0] - new[0]) * keep,
                    new[1] + (old[1] - new[1]) * keep,
                    new[2] + (old[2] - new[2]) * keep,
                )

    def of(self, name: str) -> tuple[float, float, float]:
        """The mean of one queue."""
        return self.means.get(name, NOTHING)

    def as_record(self) -> dict[str, Any]:
        """The memory as JSON."""
        return {
            "half_life_s": self.half_life_s,
            "at": self.at,
            "means": {name: list(mean) for name, mean in self.means.items()},
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Decay:
        """A memory from its JSON."""
        means = {name: (mean[0], mean[1], mean[2]) for name, mean in record["means"].items()}
        return cls(record["half_life_s"], record["at"], means)


def _triple(amount: Amount) -> tuple[float, float, float]:
    return float(amount.accelerator_milli), float(amount.cpu_milli), float(amount.memory_bytes)
