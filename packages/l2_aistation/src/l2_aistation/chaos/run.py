"""A training on a loopback cluster of real processes, once undisturbed and once with each fault."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from l2_aistation._kit.problems import Failed
from l2_aistation.documents import JobSpec
from l2_aistation.loopback import LoopbackCluster

from .faults import Fault, Target

_PATIENCE_S = 300.0
_FIRST_STEPS = 12
"""Steps before a fault: two checkpoints are there, and the spare has its imports done."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one fault; seconds are from the fault to the first new step of the next attempt.

    `ok`: the job completed, its loss curve is the undisturbed one, and the cause is named right.
    """

    fault: str
    meaning: str
    label: str
    seconds: float | None
    again: int
    attempts: int
    curve: bool
    ok: bool


def run(
    spec_file: Path,
    spec: JobSpec,
    faults: Sequence[Fault],
    *,
    folder: Path,
    spares: int = 1,
    say: Say = lambda _: None,
) -> list[Result]:
    """Puts each fault into a run of the job and compares it with an undisturbed one.

    `spec_file`'s folder becomes the working folder of the ranks; `folder` is for the cluster's state.
    """
    nodes = sum(group.count for group in spec.tasks)
    with LoopbackCluster(folder, nodes=nodes, spares=spares) as cluster:
        shutil.copytree(spec_file.parent, cluster.shared, dirs_exist_ok=True)
        say("an undisturbed run")
        calm = _curve(cluster, _finished(cluster, _submit(cluster, spec, "calm")))
        results = []
        for fault in faults:
            say(f"{fault.name}: {fault.meaning}")
            results.append(_disturbed(cluster, spec, fault, calm))
            for name in cluster.names:  # a node that was taken away comes back
                if cluster.processes[name].poll() is not None:
                    cluster.start_agent(name)
        return results


def _disturbed(cluster: LoopbackCluster, spec: JobSpec, fault: Fault, calm: dict[int, float]) -> Result:
    job = _submit(cluster, spec, fault.name)
    view = _wait(cluster, job, lambda view: _last_step(view) >= _FIRST_STEPS)
    at = time.time()
    fault.inject(Target(cluster, view))
    view = _finished(cluster, job)
    curve = _curve(cluster, view)
    labels = [str(row["label"]) for row in view["faults"]]
    same = curve.keys() == calm.keys() and all(
        math.isclose(curve[step], calm[step], rel_tol=1e-4) for step in calm
    )
    named = set(labels[:1]) <= set(fault.labels) if fault.labels else not labels
    named = named and bool(labels) == bool(fault.labels)
    return Result(
        fault.name,
        fault.meaning,
        labels[0] if labels else "none",
        _seconds(cluster, job, at) if labels else None,
        sum(attempt["lost_steps"] for attempt in view["attempts"]),
        len(view["attempts"]),
        same,
        same and named and view["state"] == "completed",
    )


def _submit(cluster: LoopbackCluster, spec: JobSpec, name: str) -> str:
    value = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    value["name"] = f"{spec.name}-{name}"
    if spec.checkpoint is not None:
        value["checkpoint"]["path"] = f"{spec.checkpoint.path}/{name}"
    return str(cluster.client.submit(value)["id"])


def _wait(cluster: LoopbackCluster, job: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    end = time.monotonic() + _PATIENCE_S
    while True:
        view = cluster.client.job(job)
        if reached(view):
            return view
        if view["state"] in ("failed", "cancelled", "completed") or time.monotonic() > end:
            raise Failed(f"job {job} is {view['state']} too early", why=view["why"] or "")
        time.sleep(0.05)


def _finished(cluster: LoopbackCluster, job: str) -> dict[str, Any]:
    view = cluster.client.wait(job, _PATIENCE_S)
    if view["state"] not in ("completed", "failed"):
        raise Failed(f"job {job} is {view['state']}", why=view["why"] or "")
    return view


def _last_step(view: dict[str, Any]) -> int:
    attempts = view["attempts"]
    return int(attempts[-1]["last_step"] or 0) if attempts else 0


def _curve(cluster: LoopbackCluster, view: dict[str, Any]) -> dict[int, float]:
    """The loss of each step as the attempt that counts had it: the last one that did the step."""
    rows = sorted(cluster.client.steps(view["id"]), key=lambda row: (row["attempt"], row["step"]))
    return {row["step"]: float(row["loss"]) for row in rows if row["loss"] is not None}


def _seconds(cluster: LoopbackCluster, job: str, at: float) -> float | None:
    """From the fault to the first step that a later attempt reported."""
    from datetime import datetime

    times = [
        datetime.fromisoformat(row["at"]).timestamp()
        for row in cluster.client.steps(job)
        if row["attempt"] > 1
    ]
    return min(times) - at if times else None
