"""The use cases of podsys, as one object.  Nothing changes a host but `apply`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from l1_podsys import __version__
from l1_podsys._kit.documents import read_json, validated
from l1_podsys._kit.problems import NotFound
from l1_podsys.backends.bundle import BundleIndex, make_bundle
from l1_podsys.backends.folders import ClusterFolder, Run, StateFolder
from l1_podsys.backends.ssh import SshTransport
from l1_podsys.core.acceptance import Measured, build_report
from l1_podsys.core.diagnosis import Finding, diagnose
from l1_podsys.core.inventory import Inventory, from_node_inventory, parse
from l1_podsys.core.planning import HostPlan, Plan, remaining
from l1_podsys.documents import ClusterReport
from l1_podsys.settings import Settings

from .applying import Applier, Watch, refuse_stale_files, same_sources
from .loading import load_inventory, load_profile
from .planning import Wanted, compare, plan_of, wanted_by, wanted_of
from .verifying import Verifier

Say = Callable[[str], None]


class Podsys:
    """Plan, apply, verify, diagnose and report a cluster."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings.load()
        self.state = StateFolder(self.settings.state_dir)

    # ---- inventory

    def import_nodes(self, document: dict[str, Any] | Path, **options: Any) -> Inventory:
        """The inventory of a `node-inventory/v1` document (or its file).

        Options: `cluster`, `ssh_key`, `profile` and `shared_path`, as in the inventory.
        """
        if isinstance(document, Path):
            return from_node_inventory(read_json(document), where=str(document), **options)
        return from_node_inventory(document, **options)

    def inventory(self, path: Path) -> Inventory:
        """The inventory of a YAML file, linted."""
        return load_inventory(path)

    def save(self, text: str) -> Inventory:
        """Keeps an inventory given as YAML text, after checking it and the profile that it names."""
        read = parse(text)
        _, _, file = load_profile(read.profile, Path.cwd())
        self.state.cluster(read.cluster).save_inventory(_kept(read, file))
        return read

    # ---- plan and apply

    def plan(
        self, inventory: Inventory | Path, *, base: Path | None = None, say: Say = lambda _: None
    ) -> Plan:
        """Asks every host and compares it with its profile.  Changes nothing on any host.

        `base` is where the profile's relative path starts: the inventory's folder for a file, else
        the current one.  `say` is called with each host that has answered.
        """
        file = inventory if isinstance(inventory, Path) else None
        read = load_inventory(inventory) if isinstance(inventory, Path) else inventory
        cluster = self.state.cluster(read.cluster)
        wanted = wanted_of(read, base or (file.resolve().parent if file else Path.cwd()), cluster)
        with self._transport(read) as transport:
            compared = compare(wanted, transport, self.settings, say)
        plan = plan_of(wanted, compared, file)
        cluster.save_inventory(_kept(read, wanted.profile_file))
        cluster.save_plan(plan)
        return plan

    def apply(
        self,
        plan: Plan | Path,
        *,
        watch: Watch = lambda *_: None,
        started: Callable[[Run], None] = lambda _: None,
    ) -> Run:
        """Applies a plan as it stands; a stale one is refused with `Conflict` before anything changes.

        A run of this plan that was interrupted goes on.  `started` is called with the run before
        anything is changed, `watch` with (host, role, event, detail) for each step.
        The answer says how it ended: `Run.states()`.
        """
        if isinstance(plan, Path):
            plan = validated(Plan, read_json(plan), where=str(plan))
        refuse_stale_files(plan)
        cluster = self.state.cluster(plan.inventory.cluster)
        with cluster.alone():
            wanted = wanted_by(plan.inventory, plan.profile, Path(plan.base), cluster)
            same_sources(plan, wanted)
            with self._transport(plan.inventory) as transport:
                compared = compare(wanted, transport, self.settings)
                for planned, now in zip(plan.hosts, compared.hosts, strict=True):
                    if planned.error is None and now.error is None:
                        remaining(planned, now)
                run = cluster.unfinished(plan) or cluster.new_run(plan)
                started(run)
                Applier(plan, wanted, transport, self.settings, run, watch).go(_as_planned(plan, compared))
        return run

    # ---- verify and report

    def verify(
        self, inventory: Inventory | Path, *, base: Path | None = None, say: Say = lambda _: None
    ) -> ClusterReport:
        """Measures every host and the network between them, and compares with the profile.

        Changes nothing; what cannot be measured or reached is a finding of the report.
        """
        file = inventory if isinstance(inventory, Path) else None
        read = load_inventory(inventory) if isinstance(inventory, Path) else inventory
        cluster = self.state.cluster(read.cluster)
        wanted = wanted_of(read, base or (file.resolve().parent if file else Path.cwd()), cluster)
        with self._transport(read) as transport:
            report = self._verify(wanted, transport, say)
        cluster.save_inventory(_kept(read, wanted.profile_file))
        cluster.save_report(report)
        return report

    def _verify(self, wanted: Wanted, transport: SshTransport, say: Say) -> ClusterReport:
        say("facts of each host")
        compared = compare(wanted, transport, self.settings)
        verifier = Verifier(
            wanted.inventory, wanted.profile, transport, parallel=self.settings.ssh_parallel, say=say
        )
        measured: Measured = verifier.measure(list(compared.facts))
        measured.unreachable |= {host.id: host.error for host in compared.hosts if host.error is not None}
        return build_report(
            taken_at=datetime.now(UTC),
            version=__version__,
            inventory=wanted.inventory,
            profile=wanted.profile if wanted.inventory.profile else None,
            facts=compared.facts,
            drift={host.id: host for host in compared.hosts if host.error is None},
            measured=measured,
        )

    def report(self, cluster: str, tenant: str | None = None) -> ClusterReport:
        """The newest report of a cluster that `tenant` may see (None: all)."""
        report = self.state.known(cluster, tenant).report()
        if report is None:
            raise NotFound(f"no report of cluster {cluster!r} yet", do="run: podsys verify")
        return report

    # ---- the rest

    def diagnose(self, texts: Mapping[str, str]) -> list[Finding]:
        """Findings in texts by name (logs, outputs of tools): fault, cause, evidence, fix, confidence."""
        return diagnose(texts)

    def bundle(
        self,
        packages: Sequence[str],
        folder: Path | None = None,
        *,
        suite: str = "bookworm",
        say: Say = lambda _: None,
    ) -> tuple[Path, BundleIndex]:
        """An offline bundle of Debian packages: made once, then checked and used again."""
        name = f"{suite}-{'-'.join(sorted(packages))}"[:100]
        place = (folder or self.settings.bundles / name).resolve()  # apt reads relative paths as its own
        place.parent.mkdir(parents=True, exist_ok=True)
        return place, make_bundle(packages, place, suite=suite, say=say)

    def runs(self, tenant: str | None = None) -> list[Run]:
        """Runs of all clusters that `tenant` may see (None: all), newest first."""
        clusters = self.clusters(tenant)
        return sorted(
            (run for cluster in clusters for run in cluster.runs()), key=lambda run: run.id, reverse=True
        )

    def clusters(self, tenant: str | None = None) -> list[ClusterFolder]:
        """Clusters that were planned or verified here and that `tenant` may see (None: all)."""
        return [cluster for cluster in self.state.clusters() if cluster.seen_by(tenant)]

    def forget(self, inventory: Inventory, host: str) -> None:
        """Forgets a host's SSH key, after it was installed anew."""
        if host not in {known.id for known in inventory.hosts}:
            raise NotFound(f"no host {host!r} in cluster {inventory.cluster}")
        with self._transport(inventory) as transport:
            transport.forget(host)

    @contextmanager
    def _transport(self, inventory: Inventory) -> Iterator[SshTransport]:
        cluster = self.state.cluster(inventory.cluster)
        cluster.make()
        transport = SshTransport(
            inventory,
            cluster.folder,
            connect_timeout_s=self.settings.connect_timeout_s,
            persist_s=self.settings.persist_s,
        )
        try:
            yield transport
        finally:
            transport.close()


def _kept(inventory: Inventory, profile_file: Path | None) -> Inventory:
    """The inventory as it is kept: its profile is found from anywhere."""
    return inventory.model_copy(update={"profile": str(profile_file)}) if profile_file else inventory


def _as_planned(plan: Plan, compared: Any) -> Any:
    """The fresh comparison without hosts that could not be asked when the plan was made."""
    asked = {host.id for host in plan.hosts if host.error is None}
    hosts: list[HostPlan] = [host for host in compared.hosts if host.id in asked]
    return type(compared)(compared.facts, hosts)
