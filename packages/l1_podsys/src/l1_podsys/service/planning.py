"""Plan: read what is wanted, ask the hosts, compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from l1_podsys._kit.documents import digest_of_file
from l1_podsys.backends.folders import ClusterFolder
from l1_podsys.core.facts import Facts, hide_words
from l1_podsys.core.inventory import Inventory
from l1_podsys.core.planning import (
    HostPlan,
    Plan,
    Profile,
    Sources,
    desired_state,
    make_plan,
    plan_host,
    questions_for,
)
from l1_podsys.core.planning.desired import Desired
from l1_podsys.ports import Transport
from l1_podsys.settings import Settings

from .gathering import gather
from .loading import load_profile, load_sources

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """What an inventory and its profile ask of each host, and where the files for it lie."""

    inventory: Inventory
    profile: Profile
    base: Path
    sources: Sources
    uploads: dict[str, Path]
    desired: dict[str, Desired]
    profile_file: Path | None


def wanted_of(inventory: Inventory, base: Path, cluster: ClusterFolder) -> Wanted:
    """Reads the profile that an inventory names, from `base`, and works out each host's resources."""
    profile, folder, file = load_profile(inventory.profile, base)
    return wanted_by(inventory, profile, folder, cluster, file)


def wanted_by(
    inventory: Inventory, profile: Profile, base: Path, cluster: ClusterFolder, file: Path | None = None
) -> Wanted:
    """The same for a profile that is at hand; `base` is where its relative paths start."""
    sources, uploads = load_sources(profile, base, cluster.key())
    desired = {host.id: desired_state(inventory, profile, host, sources) for host in inventory.hosts}
    return Wanted(inventory, profile, base, sources, uploads, desired, file)


@dataclass(frozen=True)
class Compared:
    """All hosts compared with what is wanted; a host without facts has a plan with its error."""

    facts: dict[str, Facts]
    hosts: list[HostPlan]


def compare(wanted: Wanted, transport: Transport, settings: Settings, say: Say = lambda _: None) -> Compared:
    """Asks every host once and compares."""
    shared = wanted.inventory.shared_path
    requests = {
        host: {**questions_for(desired, wanted.sources, shared_path=shared), "kernel_log": True}
        for host, desired in wanted.desired.items()
    }
    facts, problems = gather(
        transport, requests, parallel=settings.ssh_parallel, timeout_s=settings.facts_timeout_s, done=say
    )
    facts = {host: hide_words(said, wanted.sources.secrets.values()) for host, said in facts.items()}
    plans = []
    for host in wanted.inventory.hosts:
        if host.id in facts:
            plans.append(plan_host(host.id, host.hostname, wanted.desired[host.id], facts[host.id]))
        else:
            plans.append(HostPlan(id=host.id, hostname=host.hostname, error=str(problems[host.id])))
    return Compared(facts, plans)


def plan_of(wanted: Wanted, compared: Compared, inventory_file: Path | None) -> Plan:
    """The plan, with the digests of the files that it was made from."""
    files = [path for path in (inventory_file, wanted.profile_file) if path is not None]
    return make_plan(
        made_at=datetime.now(UTC),
        inventory=wanted.inventory,
        profile=wanted.profile,
        base=str(wanted.base),
        files={str(path.resolve()): digest_of_file(path) for path in files},
        hosts=compared.hosts,
    )
