"""Apply: compare anew, send what is needed, let ansible set the drifted pairs, prove it by comparing "
"again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from l1_podsys._kit.documents import digest_of_file
from l1_podsys._kit.problems import Conflict
from l1_podsys.backends.ansible import AnsibleExecutor
from l1_podsys.backends.folders import Run
from l1_podsys.backends.ssh import SshTransport
from l1_podsys.core.facts import Facts
from l1_podsys.core.planning import Change, HostPlan, PairState, Plan, remaining
from l1_podsys.core.planning.resources import Account, File, Link, Package, Resource, Setting, Unit, Wheel
from l1_podsys.core.planning.run_states import IN_FLIGHT, next_state
from l1_podsys.ports import Upload, Work
from l1_podsys.settings import Settings

from .gathering import on_all
from .planning import Compared, Wanted, compare

UPLOADS = "/var/lib/podsys/uploads"
SETTLE_S = 1.0
"""How long a service is given to show that it cannot run, before its state is asked."""

Watch = Callable[[str, str, str, str], None]
"""host, role, event, detail"""


def refuse_stale_files(plan: Plan) -> None:
    """A plan is stale when a file that it was made from has another content now."""
    for name, digest in plan.files.items():
        path = Path(name)
        if path.exists() and digest_of_file(path) != digest:
            raise Conflict(
                f"the plan is stale: {path.name} was changed after it",
                field=name,
                why="a plan is applied as it was looked at, or not at all",
                do="run `podsys plan` again, look at the difference, then `podsys apply`",
            )


def same_sources(plan: Plan, wanted: Wanted) -> None:
    """The plan's resources must still be what its files (wheels, secrets, bundle) give."""
    for host in plan.hosts:
        now: dict[tuple[str, str], Resource] = {
            (r.kind, r.name): r for _, r in wanted.desired[host.id].placed
        }
        for change in host.changes:
            if now.get(change.key) != change.resource:
                raise Conflict(
                    f"the plan is stale: what {change.resource.name} is made from was changed",
                    why="a wheel, a secret or the bundle has another content now",
                    do="run `podsys plan` again, look at the difference, then `podsys apply`",
                )


class Applier:
    """One run of one plan.  Every step is in the run's log before the next begins."""

    def __init__(
        self, plan: Plan, wanted: Wanted, transport: SshTransport, settings: Settings, run: Run, watch: Watch
    ) -> None:
        self.plan = plan
        self.wanted = wanted
        self.transport = transport
        self.settings = settings
        self.run = run
        self.watch = watch
        self.states = run.states().states

    def go(self, before: Compared) -> None:
        """From the comparison `before` to the proved end."""
        self.run.append("begin")
        for (host, role), state in list(self.states.items()):
            if state in IN_FLIGHT:
                self._event(host, role, "resume", "found in flight after an interruption")
        todo = self._still_to_do(before)
        work = self._send(todo, before.facts)
        if work:
            self._executor().apply(work, self._event)
            self._prove(work)
        bad = sorted({host for (host, _), state in self.states.items() if state is PairState.FAILED})
        self.run.append("end", detail="failed" if bad or self.plan.unreachable else "done")

    def _event(self, host: str, role: str, event: str, detail: str = "") -> None:
        after = next_state(self.states[host, role], event)
        self.run.append(event, host, role, detail)
        self.states[host, role] = after
        self.watch(host, role, event, detail)

    def _pending(self, host: str) -> list[str]:
        return [r for (h, r), state in self.states.items() if h == host and state is PairState.PENDING]

    def _still_to_do(self, compared: Compared) -> list[HostPlan]:
        """Pairs with nothing left to do are proved at once; hosts that went away have failed."""
        planned = {host.id: host for host in self.plan.hosts}
        todo = []
        for now in compared.hosts:
            roles = now.roles()
            for role in self._pending(now.id):
                if now.error is not None:
                    self._event(now.id, role, "fail", now.error.replace("\n", "; "))
                elif role not in roles:
                    self._event(now.id, role, "found", "nothing left to do")
            if now.error is None and now.changes:
                left = remaining(planned[now.id], now)
                pending = self._pending(now.id)
                changes = [change for change in left.changes if change.role in pending]
                todo.append(left.model_copy(update={"changes": changes}))
        return [host for host in todo if host.changes]

    def _send(self, todo: list[HostPlan], facts: dict[str, Facts]) -> list[Work]:
        """Uploads wheels, packages and secrets; a host that does not take them has failed."""
        variables = {host.id: role_variables(host.changes, facts[host.id]) for host in todo}

        def send(host: str) -> None:
            uploads = self._uploads(host, variables[host])
            if uploads:
                self.transport.upload(host, UPLOADS, uploads)

        _, problems = on_all(variables, send, parallel=self.settings.ssh_parallel)
        for host, problem in problems.items():
            for role in variables.pop(host):
                self._event(host, role, "fail", f"upload: {problem.what} {problem.why}")
        return [Work(host, roles) for host, roles in variables.items()]

    def _uploads(self, host: str, roles: dict[str, dict[str, Any]]) -> list[Upload]:
        private = {
            digest.partition(":")[2]: data for digest, data in self.wanted.desired[host].private.items()
        }
        names = []
        for values in roles.values():
            names += [item["upload"] for item in values.get("file", []) if "upload" in item]
            names += [item["upload"] for item in values.get("wheel", [])]
            names += [deb["file"] for deb in values.get("debs", [])]
        return [Upload(name, private.get(name) or self.wanted.uploads[name]) for name in dict.fromkeys(names)]

    def _executor(self) -> AnsibleExecutor:
        inventory = self.plan.inventory
        return AnsibleExecutor(
            self.run.folder / "ansible",
            ssh_config=self.transport.files.config,
            uploads=UPLOADS,
            pythons={host.id: host.python for host in inventory.hosts},
            become={host.id for host in inventory.hosts if inventory.login(host).user != "root"},
            forks=self.settings.forks,
        )

    def _prove(self, work: list[Work]) -> None:
        """Asks the hosts again: a pair is proved when no difference is left and no service has died since."""
        restarted = {item.host: started_units(item) for item in work}
        if any(restarted.values()):
            time.sleep(SETTLE_S)
        some = {host: desired for host, desired in self.wanted.desired.items() if host in restarted}
        after = compare(only(self.wanted, some), self.transport, self.settings)
        for host in after.hosts:
            left = {change.role: still_differs(change) for change in reversed(host.changes)}
            for unit, role in restarted[host.id].items():
                died = times_died(after.facts.get(host.id), unit)
                if died:
                    left.setdefault(role, f"unit {unit} has died {died} times since its start")
            for (name, role), state in list(self.states.items()):
                if name != host.id or state is not PairState.APPLIED:
                    continue
                problem = host.error or left.get(role)
                self._event(name, role, "fail" if problem else "prove", problem or "")


def only(wanted: Wanted, desired: dict[str, Any]) -> Wanted:
    """`wanted` for some of its hosts."""
    hosts = [host for host in wanted.inventory.hosts if host.id in desired]
    inventory = wanted.inventory.model_copy(update={"hosts": hosts})
    return Wanted(
        inventory, wanted.profile, wanted.base, wanted.sources, wanted.uploads, desired, wanted.profile_file
    )


def times_died(facts: Facts | None, unit: str) -> int:
    """How often systemd has restarted a unit by itself since it was started."""
    state = facts.answers.units.get(unit) if facts else None
    return (state.restarts or 0) if state else 0


def started_units(work: Work) -> dict[str, str]:
    """The units that the work of a host has started, with their role."""
    return {unit: role for role, values in work.roles.items() for unit in values.get("restart", [])}


def still_differs(change: Change) -> str:
    """What is left after ansible was content, for people."""
    log = (
        f": {' | '.join(change.diff.splitlines())}"
        if isinstance(change.resource, Unit) and change.diff
        else ""
    )
    return f"{change.resource.kind} {change.resource.name} is still {change.before}{log}"


def role_variables(changes: list[Change], facts: Facts) -> dict[str, dict[str, Any]]:
    """The variables of each role: its changed resources by kind, as the roles read them."""
    roles: dict[str, dict[str, Any]] = {}
    for change in changes:
        values = roles.setdefault(change.role, {})
        resource = change.resource
        unit = resource.name if isinstance(resource, Unit) else getattr(resource, "restarts", None)
        if unit is not None and unit not in values.setdefault("restart", []):
            values["restart"].append(unit)
        if isinstance(resource, Package):
            values["debs"] = [deb.model_dump() for deb in resource.needed(facts)]
        elif isinstance(resource, Setting):
            values.setdefault("sysctl", []).append(f"{resource.name}={resource.value}")
        elif not isinstance(resource, Unit):
            values.setdefault(resource.kind, []).append(_variables(resource))
    return roles


def _variables(resource: File | Link | Account | Wheel) -> dict[str, Any]:
    values = resource.model_dump(mode="json", exclude_none=True, exclude={"kind"})
    if isinstance(resource, File) and resource.secret:
        values["upload"] = resource.digest.partition(":")[2]
    if isinstance(resource, Wheel):
        values["upload"] = f"{resource.sha256}.whl"
        values["mark"] = resource.mark
    return values
