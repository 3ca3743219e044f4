"""A fault for a running job: the node of one rank is powered off through its BMC, at a given step."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from l0_infra_os.api import InfraOs
from l2_aistation.api import Aistation, JobRecord

LOST_RANK = 2


class PowerOff:
    """Called with every step of the job; strikes once.  Without `infra` there is nothing to switch off."""

    def __init__(
        self, client: Aistation, infra: InfraOs | None, *, step: int, say: Callable[[str], None]
    ) -> None:
        self.client, self.infra, self.step, self.say = client, infra, step, say
        self.at: datetime | None = None

    def __call__(self, row: dict[str, Any]) -> None:
        if self.infra is None or self.at is not None or row["step"] < self.step:
            return
        (job,) = self.client.jobs(state="running", limit=1)
        places = self.client.job(job["id"])["attempts"][-1]["placement"]
        node = next(place["node"] for place in places if place["rank"] == LOST_RANK)
        self.at = datetime.now(UTC)
        self.infra.power(node, "off")
        self.say(f"step {row['step']}: {node} (rank {LOST_RANK}) powered off through its BMC")

    def outcome(self, record: JobRecord) -> str:
        """How the platform saw it, and how long until the loss curve went on."""
        if self.at is None:
            return ""
        if not record.faults:
            raise SystemExit("stopped: a node was powered off and the platform saw no fault")
        fault, last = record.faults[-1], record.attempts[-1]
        from_step = last.resumed_from or 0
        onward = min(step.at for step in record.steps if step.at > self.at and step.step > from_step)
        stand_in = ", ".join(f"{new} for {old}" for old, new in last.replaced.items())
        words = (
            f"{fault.label} on {fault.node}: {fault.action}, {stand_in}; resumed from step {from_step}; "
            f"{(onward - self.at).total_seconds():.1f} s from power-off to the next step"
        )
        self.say(words)
        return words
