"""What we send to the API server and read in its answers, as plain values.  Pure.

Source of the members: the published OpenAPI schema of Kubernetes v1.37.  Names of pods are made from
what they are for, so that an order sent twice makes one pod.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from l2_aistation.backends.mailbox.manager import Key, Ticket
from l2_aistation.core.events import StartTasks

SCHEDULER = "aistation"
GATE = "ogai.io/gang"
MANAGED = "ogai.io/platform"
_JOB, _ATTEMPT, _NODE = "ogai.io/job", "ogai.io/attempt", "ogai.io/node"
_TASKS, _WORLD = "ogai.io/tasks", "ogai.io/world-size"
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Shape:
    """What all pods of a platform have alike."""

    image: str
    shared: Path
    claim: str | None = None
    accelerator: str = "nvidia.com/gpu"
    python: str = "python3"
    heartbeat_s: float = 1.0


def name_of(installation: str, key: Key) -> str:
    """A pod's name: short, allowed, the same for the same order."""
    text = f"{installation}/{key.node}/{key.job}/{key.attempt}"
    return f"ogai-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def pod(start: StartTasks, box: Path, installation: str, shape: Shape) -> dict[str, Any]:
    """The pod of an attempt's part on a node, gated and without a node yet."""
    key = Key(start.node, start.job, start.attempt)
    command = [shape.python, "-P", "-m", "l2_aistation.supervisor.warden", "--box", str(box)]
    command += ["--attempt", str(start.attempt), "--shared", str(shape.shared)]
    command += ["--heartbeat", str(shape.heartbeat_s)]
    devices = len({place for task in start.tasks for place in task.accelerators})
    container: dict[str, Any] = {
        "name": "warden",
        "image": shape.image,
        "command": command,
        "resources": _resources(start, devices, shape.accelerator),
        "volumeMounts": [{"name": "shared", "mountPath": str(shape.shared)}],
    }
    if devices:  # numbered anew inside the container, whichever the plug-in chose
        container["env"] = [{"name": "CUDA_VISIBLE_DEVICES", "value": ",".join(map(str, range(devices)))}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name_of(installation, key),
            "labels": {"app.kubernetes.io/managed-by": SCHEDULER, MANAGED: installation},
            "annotations": {
                _JOB: start.job,
                _ATTEMPT: str(start.attempt),
                _NODE: start.node,
                _TASKS: str(len(start.tasks)),
                _WORLD: str(start.world_size),
            },
        },
        "spec": {
            "schedulerName": SCHEDULER,
            "schedulingGates": [{"name": GATE}],
            "restartPolicy": "Never",
            "hostNetwork": True,  # the rendezvous is at the node's address
            "dnsPolicy": "ClusterFirstWithHostNet",
            "automountServiceAccountToken": False,  # a job has no business with the API server
            "enableServiceLinks": False,
            "containers": [container],
            "volumes": [_volume(shape)],
        },
    }


def _resources(start: StartTasks, devices: int, accelerator: str) -> dict[str, Any]:
    cpu = sum(task.cpu_milli for task in start.tasks)
    memory = sum(task.memory_bytes for task in start.tasks)
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if cpu:
        requests["cpu"] = f"{cpu}m"
    if memory:
        requests["memory"] = limits["memory"] = f"{math.ceil(memory / _MIB)}Mi"
    if devices:
        requests[accelerator] = limits[accelerator] = str(devices)
    return {"requests": requests, "limits": limits}


def _volume(shape: Shape) -> dict[str, Any]:
    if shape.claim is not None:
        return {"name": "shared", "persistentVolumeClaim": {"claimName": shape.claim}}
    return {"name": "shared", "hostPath": {"path": str(shape.shared), "type": "Directory"}}


def opened() -> dict[str, Any]:
    """The merge patch that opens a pod's gate."""
    return {"spec": {"schedulingGates": None}}


def binding(pod_name: str, node: str) -> dict[str, Any]:
    """The Binding call's body: this pod, to exactly this node."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod_name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def key_of(item: Mapping[str, Any]) -> Key | None:
    """The part that a pod is; None for one that carries our label by mistake."""
    notes = item["metadata"].get("annotations") or {}
    try:
        return Key(notes[_NODE], notes[_JOB], int(notes[_ATTEMPT]))
    except (KeyError, ValueError):
        return None


def tickets(items: Iterable[Mapping[str, Any]]) -> dict[Key, Ticket]:
    """The orders that the pods are; a pod that is being deleted lives until it is gone."""
    found: dict[Key, Ticket] = {}
    for item in items:
        key = key_of(item)
        if key is None:
            continue
        status = item.get("status") or {}
        phase = status.get("phase", "Pending")
        why = " ".join(text for text in (phase, status.get("reason"), status.get("message")) if text)
        name = item["metadata"]["name"]
        if phase in ("Succeeded", "Failed"):
            found[key] = Ticket(name, "over", why)
        elif phase == "Pending" and not item["metadata"].get("deletionTimestamp"):
            found[key] = Ticket(name, "waiting", why)
        else:
            found[key] = Ticket(name, "running", why)
    return found


def admissible(items: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The pods still to be opened or bound whose gang is complete: every task of it has its pod."""
    gangs: dict[tuple[str, int], list[Mapping[str, Any]]] = defaultdict(list)
    for item in items:
        key = key_of(item)
        if key is not None and not item["metadata"].get("deletionTimestamp"):
            gangs[key.job, key.attempt].append(item)
    admitted: list[Mapping[str, Any]] = []
    for members in gangs.values():
        notes = [item["metadata"]["annotations"] for item in members]
        if sum(int(note[_TASKS]) for note in notes) == int(notes[0][_WORLD]):
            admitted += [item for item in members if is_gated(item) or not item["spec"].get("nodeName")]
    return admitted


def is_gated(item: Mapping[str, Any]) -> bool:
    """Whether the gate is closed."""
    return bool(item["spec"].get("schedulingGates"))


def nodes(items: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The nodes that are ready and not cordoned, with their boot ids."""
    found = {}
    for item in items:
        status = item.get("status") or {}
        ready = any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in status.get("conditions") or ()
        )
        if ready and not (item.get("spec") or {}).get("unschedulable"):
            found[item["metadata"]["name"]] = (status.get("nodeInfo") or {}).get("bootID", "")
    return found
