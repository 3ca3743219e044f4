"""The published kit over the official client and a stand-in of the API server's few calls.

No Kubernetes server can be had where these tests run.  The stand-in checks every body against the
published OpenAPI schema, refuses what the real server is documented to refuse (binding a gated pod, a
second pod of a name), and starts a bound pod's command as a process, as a node would.  It is no
Kubernetes: what it does not check, nobody has checked.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from l2_aistation.backends.kubernetes import KubernetesManager, Shape, objects
from l2_aistation.backends.mailbox import MailboxEngine
from l2_aistation.core.events import EndTasks, StartTasks, TaskLaunch, TasksEnded, TaskStarted
from l2_aistation.testing import SLEEP, EngineConformance, EngineLab, Recorder

client = pytest.importorskip("kubernetes.client", reason="needs the extra kubernetes")
jsonschema = pytest.importorskip("jsonschema")

SCHEMA = json.loads((Path(__file__).parents[1] / "unit/data/kubernetes-v1.37.json").read_text())
PODS = "/api/v1/namespaces/jobs/pods"


def validate(kind: str, body: Any) -> None:
    """Against the published schema, unknown members included."""
    schema = {"$ref": f"#/$defs/io.k8s.api.core.v1.{kind}", "$defs": SCHEMA["$defs"]}
    jsonschema.Draft202012Validator(schema).validate(body)


class StandIn:
    """Pods by name, and the processes of those that are bound."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.pods: dict[str, dict[str, Any]] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.calls: list[tuple[str, str]] = []
        self.nodes = ["n1", "n2"]

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        with self.lock:
            self.calls.append((method, path))
            self._look()
            if path == "/api/v1/nodes":
                return 200, {"items": [self._node(name) for name in self.nodes]}
            if path == PODS:
                return (200, {"items": list(self.pods.values())}) if method == "GET" else self._create(body)
            name, _, part = path.removeprefix(f"{PODS}/").partition("/")
            if name not in self.pods:
                return 404, {"reason": "NotFound"}
            if part == "binding":
                return self._bind(self.pods[name], body)
            if method == "PATCH":
                assert body == {"spec": {"schedulingGates": None}}
                del self.pods[name]["spec"]["schedulingGates"]
            elif method == "DELETE":
                self._delete(name)
            return 200, {}

    @staticmethod
    def _node(name: str) -> dict[str, Any]:
        status = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"bootID": "b"}}
        return {"metadata": {"name": name}, "spec": {}, "status": status}

    def _create(self, body: Any) -> tuple[int, Any]:
        validate("Pod", body)
        name = body["metadata"]["name"]
        if name in self.pods:
            return 409, {"reason": "AlreadyExists"}
        self.pods[name] = {**body, "status": {"phase": "Pending"}}
        return 201, {}

    def _bind(self, pod: dict[str, Any], body: Any) -> tuple[int, Any]:
        validate("Binding", body)
        spec = pod["spec"]
        if spec.get("schedulingGates") or spec.get("nodeName") or "deletionTimestamp" in pod["metadata"]:
            return 409, {"reason": "Conflict"}
        spec["nodeName"] = body["target"]["name"]
        container = spec["containers"][0]
        variables = {entry["name"]: entry["value"] for entry in container.get("env", [])}
        name = pod["metadata"]["name"]
        self.processes[name] = subprocess.Popen(container["command"], env={**os.environ, **variables})
        pod["status"]["phase"] = "Running"
        return 201, {}

    def _delete(self, name: str) -> None:
        if name in self.processes and self.processes[name].poll() is None:
            self.pods[name]["metadata"]["deletionTimestamp"] = "now"
            self.processes[name].terminate()
        else:
            del self.pods[name]

    def _look(self) -> None:
        for name, process in self.processes.items():
            if name in self.pods and (code := process.poll()) is not None:
                self.pods[name]["status"]["phase"] = "Failed" if code else "Succeeded"
                if "deletionTimestamp" in self.pods[name]["metadata"]:
                    del self.pods[name]

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


class Lab:
    """The stand-in behind HTTP, and engines that reach it through the official client."""

    def __init__(self, folder: Path) -> None:
        self.shared = folder / "shared"
        self.shared.mkdir()
        self.cluster = StandIn()
        cluster = self.cluster

        class Handler(BaseHTTPRequestHandler):
            def do(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                try:
                    status, value = cluster.answer(self.command, self.path.partition("?")[0], body)
                except Exception as error:  # noqa: BLE001 (what the real server says to a bad body)
                    status, value = 422, {"reason": "Invalid", "message": str(error)}
                text = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PATCH = do_DELETE = do  # noqa: N815 (http.server looks for them)

            def log_message(self, *_arguments: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def open_engine(self) -> MailboxEngine:
        settings = client.Configuration(host=f"http://127.0.0.1:{self.server.server_port}")
        api = client.CoreV1Api(client.ApiClient(settings))
        root = self.shared / ".aistation.kubernetes"
        shape = Shape("image", self.shared, python=sys.executable, heartbeat_s=0.3)
        manager = KubernetesManager(api, "jobs", root, shape)
        return MailboxEngine(manager, root / "nodes", heartbeat_s=0.3)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.cluster.close()


@pytest.fixture(scope="module")
def module_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("kubernetes"))
    yield lab
    lab.close()


class TestKubernetesEngine(EngineConformance):
    @pytest.fixture
    def lab(self, module_lab: Lab) -> EngineLab:
        return EngineLab(open_engine=module_lab.open_engine, nodes=("n1", "n2"), shared=module_lab.shared)


def part(job: str, node: str, rank: int, **more: Any) -> StartTasks:
    """One of a gang of two."""
    task = TaskLaunch(rank, 0, "worker", ("python", "-c", SLEEP), {"RANK": str(rank)}, **more)
    return StartTasks(job, 1, node, "tenant", 2, (task,))


def test_a_gang_is_bound_whole(module_lab: Lab) -> None:
    """The first pod stays behind its gate until the second is there; then both are bound where we say."""
    engine, sink = module_lab.open_engine(), Recorder("gang-x")
    engine.open(sink)
    engine.send(part("gang-x", "n1", 0))
    with pytest.raises(AssertionError, match="no 1 TaskStarted"):
        sink.wait(TaskStarted, within_s=3)
    (pod,) = [pod for pod in module_lab.cluster.pods.values() if pod["spec"].get("schedulingGates")]
    assert "nodeName" not in pod["spec"]
    assert pod["spec"]["schedulerName"] == "aistation"
    engine.send(part("gang-x", "n2", 1))
    started = {(event.rank, event.node) for event in sink.wait(TaskStarted, 2)}
    assert started == {(0, "n1"), (1, "n2")}
    for node in ("n1", "n2"):
        engine.send(EndTasks("gang-x", 1, node, 0.0))
    sink.wait(TasksEnded, 2)
    engine.close()
    patches = [call for call in module_lab.cluster.calls if call[0] == "PATCH"]
    assert len(set(patches)) == len(patches)


def test_a_pod_asks_for_what_its_ranks_need(tmp_path: Path) -> None:
    """Valid against the published schema, with the device plug-in's resource, without a service account."""
    start = part("train-1", "gpu-7", 0, accelerators=(2, 5), cpu_milli=1500, memory_bytes=3 << 30)
    shape = Shape("registry/image:1", tmp_path, claim="storage", accelerator="amd.com/gpu")
    body = objects.pod(start, tmp_path / "box", "abcd", shape)
    validate("Pod", body)
    container = body["spec"]["containers"][0]
    assert container["resources"] == {
        "requests": {"cpu": "1500m", "memory": "3072Mi", "amd.com/gpu": "2"},
        "limits": {"memory": "3072Mi", "amd.com/gpu": "2"},
    }
    assert container["env"] == [{"name": "CUDA_VISIBLE_DEVICES", "value": "0,1"}]
    assert body["spec"]["volumes"] == [{"name": "shared", "persistentVolumeClaim": {"claimName": "storage"}}]
    assert body["spec"]["automountServiceAccountToken"] is False
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", body["metadata"]["name"])
    validate("Binding", objects.binding(body["metadata"]["name"], "gpu-7"))
    with pytest.raises(jsonschema.ValidationError):
        validate("Pod", {**body, "spec": {**body["spec"], "schedulername": "x"}})


def test_nodes_that_may_work() -> None:
    """Ready and not cordoned; what changes at a boot comes along."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"bootID": "b1"}}
    items: list[dict[str, Any]] = [
        {"metadata": {"name": "up"}, "status": ready},
        {"metadata": {"name": "cordoned"}, "spec": {"unschedulable": True}, "status": ready},
        {"metadata": {"name": "down"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
        {"metadata": {"name": "new"}, "status": {}},
    ]
    assert objects.nodes(items) == {"up": "b1"}
