"""State as folders: one per cluster, with its plan, its runs, its report and its host keys.

A run is a folder with the plan it applies and an append-only log; each line is on disk before the
next step begins, so that a run survives a kill at any point.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from l1_podsys._kit.documents import read_json, validated
from l1_podsys._kit.files import atomic_write
from l1_podsys._kit.problems import Conflict, NotFound
from l1_podsys.core.inventory import Inventory, parse, to_yaml
from l1_podsys.core.planning import PairState, Plan, RunEvent, fold
from l1_podsys.core.planning.run_states import RunStates
from l1_podsys.documents import ClusterReport

CLUSTER_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
RUN_NAME = re.compile(r"\d{8}-\d{6}-\d{6}")


class Run:
    """One application of one plan."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.id = folder.name
        self._written: int | None = None

    @property
    def plan(self) -> Plan:
        """The plan that this run applies."""
        return validated(Plan, read_json(self.folder / "plan.json"), where=str(self.folder / "plan.json"))

    def events(self) -> list[RunEvent]:
        """The log; a last line that a kill has torn is left out."""
        try:
            lines = (self.folder / "events.jsonl").read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        return [RunEvent.model_validate_json(line) for line in lines[:-1] if line.strip()]

    def states(self) -> RunStates:
        """The states of its pairs, and how it ended."""
        return fold(self.plan.pairs(), self.events())

    def append(
        self, event: str, host: str | None = None, role: str | None = None, detail: str = ""
    ) -> RunEvent:
        """Writes one event and waits until it is on disk.  Only the holder of `alone` may write."""
        with open(self.folder / "events.jsonl", "ab+") as stream:
            if self._written is None:
                self._written = self._heal(stream)
            number = self._written = self._written + 1
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            row = RunEvent(sequence=number, time=now, event=event, host=host, role=role, detail=detail)
            stream.write(row.model_dump_json(exclude_none=True).encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        return row

    @staticmethod
    def _heal(stream: Any) -> int:
        """Cuts a torn last line, so that the next one stands alone; the number of whole ones."""
        stream.seek(0)
        data = stream.read()
        if data and not data.endswith(b"\n"):
            stream.truncate(data.rfind(b"\n") + 1)
        stream.seek(0, os.SEEK_END)
        return int(data.count(b"\n"))

    def failures(self) -> list[dict[str, str]]:
        """The pairs that failed, with the reason."""
        states = self.states()
        return [
            {"host": host, "role": role, "why": states.details.get((host, role), "")}
            for (host, role), state in states.states.items()
            if state is PairState.FAILED
        ]

    def summary(self) -> dict[str, Any]:
        """The run for a table: id, when, how it ended, pairs changed, unchanged and failed."""
        events, states = self.events(), self.states()
        found = {(event.host, event.role) for event in events if event.event == "found"}
        ended = list(states.states.items())
        return {
            "id": self.id,
            "cluster": self.plan.inventory.cluster,
            "started": events[0].time if events else None,
            "state": states.ended or "unfinished",
            "pairs": len(ended),
            "changed": sum(state is PairState.PROVED and pair not in found for pair, state in ended),
            "unchanged": sum(pair in found for pair, _ in ended),
            "failed": sum(state is PairState.FAILED for _, state in ended),
        }


class ClusterFolder:
    """What is kept of one cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name

    def make(self) -> None:
        """Makes the folder, private to its owner."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the cluster for one apply; `Conflict` when another holds it.  A kill drops the lock."""
        self.make()
        with open(self.folder / "apply.lock", "a", encoding="utf-8") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(
                    f"another apply is at work on cluster {self.name}", do="wait for it: podsys runs"
                ) from None
            yield

    def key(self) -> bytes:
        """The key of this cluster's secret digests, made on first use."""
        path = self.folder / "digest.key"
        if not path.exists():
            self.make()
            atomic_write(path, secrets.token_bytes(32), mode=0o600)
        return path.read_bytes()

    def save_inventory(self, inventory: Inventory) -> None:
        """Keeps the inventory that was last planned."""
        self.make()
        atomic_write(self.folder / "inventory.yaml", to_yaml(inventory))

    def inventory(self) -> Inventory:
        """The inventory that was last planned."""
        return parse((self.folder / "inventory.yaml").read_text("utf-8"))

    def seen_by(self, tenant: str | None) -> bool:
        """Whether a tenant may see this cluster; an operator (None) sees all."""
        return tenant is None or self.inventory().tenant == tenant

    def save_plan(self, plan: Plan) -> None:
        """Keeps the newest plan."""
        atomic_write(self.folder / "plan.json", dump(plan.as_json()))

    def plan(self) -> Plan | None:
        """The newest plan."""
        path = self.folder / "plan.json"
        return validated(Plan, read_json(path), where=str(path)) if path.exists() else None

    def plan_applied(self) -> bool | None:
        """Whether the newest run applied the newest plan to its end; None when there is no plan."""
        plan, newest = self.plan(), next(iter(self.runs()), None)
        if plan is None:
            return None
        return (
            newest is not None and newest.states().ended == "done" and newest.plan.digest() == plan.digest()
        )

    def save_report(self, report: ClusterReport) -> None:
        """Keeps the newest report."""
        self.make()
        report.write(self.folder / "cluster-report.json")

    def report(self) -> ClusterReport | None:
        """The newest report."""
        path = self.folder / "cluster-report.json"
        return ClusterReport.read(path) if path.exists() else None

    def runs(self) -> list[Run]:
        """All runs, newest first."""
        found = [path.parent for path in self.folder.glob("runs/*/plan.json")]
        return [Run(folder) for folder in sorted(found, reverse=True)]

    def run(self, run_id: str) -> Run:
        """One run by its id."""
        run = Run(self.folder / "runs" / run_id)
        if RUN_NAME.fullmatch(run_id) and (run.folder / "plan.json").exists():
            return run
        raise NotFound(f"no run {run_id!r}")

    def summary(self) -> dict[str, Any]:
        """The cluster for a table."""
        inventory, plan, report = self.inventory(), self.plan(), self.report()
        newest = next(iter(self.runs()), None)
        counts: dict[str, int] = {}
        for check in report.checks if report else []:
            counts[check.verdict] = counts.get(check.verdict, 0) + 1
        return {
            "cluster": self.name,
            "tenant": inventory.tenant,
            "hosts": len(inventory.hosts),
            "plan_changes": plan.changes if plan else None,
            "plan_applied": self.plan_applied(),
            "last_run": newest.states().ended or "unfinished" if newest else None,
            "checks": ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())) or None,
        }

    def new_run(self, plan: Plan) -> Run:
        """A new run of a plan; it exists when its plan is on disk."""
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
        folder = self.folder / "runs" / stamp
        atomic_write(folder / "plan.json", dump(plan.as_json()))
        return Run(folder)

    def unfinished(self, plan: Plan) -> Run | None:
        """The newest run, if it applies this very plan and has not ended."""
        newest = next(iter(self.runs()), None)
        if newest is None or newest.states().ended is not None or newest.plan.digest() != plan.digest():
            return None
        return newest


class StateFolder:
    """All clusters of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "clusters"

    def cluster(self, name: str) -> ClusterFolder:
        """The folder of a cluster, which need not exist yet.  The name is checked by the inventory."""
        return ClusterFolder(self.folder / name)

    def clusters(self) -> list[ClusterFolder]:
        """Clusters that were planned at least once."""
        return [ClusterFolder(path.parent) for path in sorted(self.folder.glob("*/inventory.yaml"))]

    def known(self, name: str, tenant: str | None) -> ClusterFolder:
        """A known cluster that `tenant` may see (None: an operator); else `NotFound`."""
        if CLUSTER_NAME.fullmatch(name):
            cluster = self.cluster(name)
            if (cluster.folder / "inventory.yaml").exists() and cluster.seen_by(tenant):
                return cluster
        raise NotFound(f"no cluster {name!r}")


def dump(value: Any) -> str:
    """JSON as we write it to files."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
