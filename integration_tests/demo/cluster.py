"""Stage 3: the platform's service, then podsys from the inventory to a verified cluster with agents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml
from l1_podsys.api import ClusterReport, Podsys
from l2_aistation.api import Aistation

from integration_tests.demo.stage import ROOT, Demo
from integration_tests.processes import free_port, wait_for

AISTATION = [sys.executable, "-m", "l2_aistation"]
NODE_SHARED = "/srv/storage"


def platform(demo: Demo, controller: str | None) -> Aistation:
    """`aistation serve`; its broker listens on the management segment, where the agents are."""
    listen = ["--broker-listen", controller] if controller else []
    port = free_port()
    environment = {"OGAI_L2_SHARED_DIR": str(demo.shared), "OGAI_L2_PORT": str(port)}
    demo.process("aistation", [*AISTATION, "serve", *listen], environment)
    client = Aistation(f"http://127.0.0.1:{port}")
    wait_for(f"{client.url}/healthz", log=demo.folder("logs") / "aistation.log")
    return client


def profile(demo: Demo, bundle: Path) -> Path:
    """What every node shall be; the agent is a wheel that the profile names."""
    broker = demo.folder("ssh") / "broker.url"
    url = subprocess.check_output([*AISTATION, "broker", "url"], text=True)
    with open(os.open(broker, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as stream:
        stream.write(url.strip())
    (wheel,) = sorted((ROOT / ".cache" / "wheels").glob("l2_aistation-*.whl"))[-1:]
    agent = {
        "name": "aistation-agent",
        "wheel": str(wheel),
        "python": sys.executable,
        "command": ["-m", "l2_aistation", "agent", "--node", "{id}"],
        "environment": {
            "OGAI_L2_SHARED_DIR": NODE_SHARED,
            "OGAI_HOME": "/var/lib/ogai",
            "OMP_NUM_THREADS": "1",
        },
        "secrets": {"OGAI_L2_BROKER_URL": str(broker)},
        "kill_mode": "process",  # supervisors and ranks outlive their agent
    }
    value = {
        "name": "demo-node",
        "os": {"tuning": ["many-files"], "limits": [{"item": "nofile", "value": "65536"}]},
        "hosts_file": {},
        "users": [{"name": "operator", "keys": [demo.public_key()]}],
        "time": {"timezone": "UTC"},
        "bundle": str(bundle),
        "node_exporter": {},
        "python_services": [agent],
    }
    path = demo.folder("documents") / "profile.yaml"
    path.write_text(yaml.safe_dump(value, sort_keys=False))
    return path


def configure(demo: Demo, client: Aistation) -> ClusterReport:
    """Plan, apply, plan again (nothing left), verify; the report becomes the platform's pool."""
    podsys = Podsys()
    bundle, _ = podsys.bundle(["prometheus-node-exporter"], say=demo.say)
    inventory = podsys.import_nodes(
        json.loads(demo.documents["node-inventory"].read_text()),
        ssh_key=str(demo.folder("ssh") / "id_ed25519"),
        profile=str(profile(demo, bundle)),
        shared_path=NODE_SHARED,
    )
    plan = podsys.plan(inventory)
    demo.say(f"{len(plan.hosts)} hosts, {sum(len(host.changes) for host in plan.hosts)} differences")
    run = podsys.apply(plan)
    demo.say(f"applied, run {run.id}: {run.states().ended}")
    changes = [change for host in podsys.plan(inventory).hosts for change in host.changes]
    if left := [*map(str, run.failures()), *map(str, changes)]:
        raise SystemExit(f"stopped: the nodes are not as the profile says: {left[:3]}")
    demo.say("a second plan finds nothing to change")
    report = podsys.verify(inventory)
    report.write(demo.document("cluster-report"))
    verdicts = [check.verdict for check in report.checks]
    demo.say("checks: " + ", ".join(f"{verdicts.count(word)} {word}" for word in dict.fromkeys(verdicts)))
    client.import_pool(report.as_json())
    return report
