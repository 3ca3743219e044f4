"""The plan: an object that can be looked at, and is applied as it stands or refused as stale."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pydantic import Field

from l1_podsys._kit.documents import Digest, Part, digest_of
from l1_podsys._kit.problems import Conflict
from l1_podsys.core.inventory import Inventory

from .profile import Profile
from .resources import Resource

SCHEMA = "podsys.plan/v1"


class Change(Part):
    """One difference: what is there, what shall be."""

    role: str
    resource: Resource
    before: str
    after: str
    diff: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What this change is about, whatever its values."""
        return self.resource.kind, self.resource.name


class HostPlan(Part):
    """The differences of one host; `error` says why a host could not be asked."""

    id: str
    hostname: str
    changes: list[Change] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    error: str | None = None

    def roles(self) -> list[str]:
        """The drifted roles, in the order of applying."""
        return list(dict.fromkeys(change.role for change in self.changes))


class Plan(Part):
    """What to change on which host.  Holds all it was made from, but no secret."""

    schema_: str = Field(default=SCHEMA, alias="schema", pattern=f"^{SCHEMA}$")
    made_at: datetime
    inventory: Inventory
    profile: Profile
    base: str = Field(description="folder that the profile's relative paths start from")
    files: dict[str, Digest] = Field(default_factory=dict, description="files read, with their digests")
    hosts: list[HostPlan]

    model_config = Part.model_config | {"populate_by_name": True}

    @property
    def changes(self) -> int:
        """How many differences there are on all hosts."""
        return sum(len(host.changes) for host in self.hosts)

    @property
    def unreachable(self) -> list[HostPlan]:
        """Hosts that gave no facts."""
        return [host for host in self.hosts if host.error is not None]

    def pairs(self) -> list[tuple[str, str]]:
        """The drifted (host, role) pairs: all that an apply touches."""
        return [(host.id, role) for host in self.hosts for role in host.roles()]

    def as_json(self) -> dict[str, Any]:
        """The JSON value."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def digest(self) -> str:
        """Names this plan: equal for equal content, whenever it was made."""
        value = self.as_json()
        del value["made_at"]
        return digest_of(value)


def make_plan(
    *,
    made_at: datetime,
    inventory: Inventory,
    profile: Profile,
    base: str,
    files: dict[str, str],
    hosts: Iterable[HostPlan],
) -> Plan:
    """A plan for these hosts."""
    return Plan(
        made_at=made_at, inventory=inventory, profile=profile, base=base, files=files, hosts=list(hosts)
    )


def remaining(planned: HostPlan, now: HostPlan) -> HostPlan:
    """What of a host's plan is still to be done, given a fresh comparison.

    What has vanished from the comparison is done.  A difference that the plan does not know, or that
    is not the one it has seen, makes the plan stale: `Conflict`.
    """
    known = {change.key: change for change in planned.changes}
    for change in now.changes:
        seen = known.get(change.key)
        if seen is None or seen.resource != change.resource:
            raise Conflict(
                f"the plan is stale: on {planned.hostname}, {change.resource.kind} {change.resource.name} "
                f"is now {change.before!r}",
                why="the host changed after the plan was made; a plan is applied as it was looked at, or not",
                do="run `podsys plan` again, look at the difference, then `podsys apply`",
            )
    return now
