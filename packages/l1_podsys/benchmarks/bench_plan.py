"""CPU of a plan that finds nothing, beside `ansible-playbook --check` on the same hosts and resources.

Both ask the same twelve questions of the same systemd hosts over SSH.  CPU is that of controller and
targets together, from one cgroup that holds both, less what the hosts use while idle.  Ansible runs
with pipelining, 32 forks and without its fact gathering, which is kind to it.

Needs root, systemd-nspawn, mmdebstrap, and the extra `ansible`.  Prints a JSON list of rows.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
GROUP = Path("/sys/fs/cgroup/cpuacct/podsys-bench")
HOSTS = int(os.environ.get("PODSYS_BENCH_HOSTS", "4"))
ROUNDS = 3
BAR = 10.0

PROFILE = {
    "name": "bench",
    "os": {
        "sysctl": {"vm.swappiness": "10", "vm.max_map_count": "1048576"},
        "limits": [{"item": "memlock", "value": "unlimited"}, {"item": "nofile", "value": "1048576"}],
    },
    "hosts_file": {},
    "users": [
        {"name": "alice", "uid": 2001, "groups": ["video"], "sudo": True, "keys": ["ssh-ed25519 AAAA a"]}
    ],
    "time": {"timezone": "Asia/Shanghai"},
}


def fixture() -> Any:
    """The hosts of the real tests."""
    path = HERE.parent / "tests" / "real" / "conftest.py"
    spec = importlib.util.spec_from_file_location("hosts", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def playbook(resources: list[Any]) -> list[dict[str, Any]]:
    """Ansible's own modules for the resources that podsys planned."""
    tasks: list[dict[str, Any]] = []
    for resource in resources:
        if resource.kind == "file" and resource.block:
            task = {"ansible.builtin.blockinfile": {
                "path": resource.path, "block": resource.content.rstrip("\n"), "insertbefore": "BOF",
                "marker": "# {mark} podsys", "marker_begin": "BEGIN", "marker_end": "END"}}  # fmt: skip
        elif resource.kind == "file":
            task = {"ansible.builtin.copy": {
                "dest": resource.path, "content": resource.content, "mode": resource.mode,
                "owner": resource.owner, "group": resource.group}}  # fmt: skip
        elif resource.kind == "link":
            task = {"ansible.builtin.file": {"src": resource.target, "dest": resource.path, "state": "link"}}
        elif resource.kind == "user":
            task = {"ansible.builtin.user": {
                "name": resource.name, "uid": resource.uid, "shell": resource.shell,
                "groups": resource.groups, "append": True}}  # fmt: skip
        elif resource.kind == "sysctl":
            command = f"test -w /proc/sys || cat /proc/sys/{resource.name.replace('.', '/')}"
            task = {"ansible.builtin.shell": {"cmd": command}, "check_mode": False, "changed_when": False}
        else:
            task = {
                "ansible.builtin.systemd_service": {
                    "name": resource.name,
                    "state": "started",
                    "enabled": True,
                }
            }
        tasks.append({"name": f"{resource.kind} {resource.name}", **task})
    return [{"hosts": "all", "gather_facts": False, "tasks": tasks}]


def usage_s() -> float:
    return int((GROUP / "cpuacct.usage").read_text()) / 1e9


def cpu_of(work: Callable[[], None], idle_per_s: float) -> tuple[float, float]:
    """CPU and wall seconds of one run, without the hosts' idle CPU."""
    before, start = usage_s(), time.monotonic()
    work()
    wall = time.monotonic() - start
    return max(0.0, usage_s() - before - idle_per_s * wall), wall


def measure(hosts: Any, folder: Path) -> list[dict[str, Any]]:
    from l1_podsys.api import Podsys, Settings
    from l1_podsys.service.planning import wanted_of

    (folder / "profile.yaml").write_text(yaml.safe_dump(PROFILE))
    inventory = folder / "inventory.yaml"
    inventory.write_text(hosts.inventory(profile="profile.yaml"))
    podsys = Podsys(Settings(home=folder / "home"))
    podsys.apply(podsys.plan(inventory))
    assert podsys.plan(inventory).changes == 0
    read = podsys.inventory(inventory)
    wanted = wanted_of(read, folder, podsys.state.cluster(read.cluster))
    resources = [resource for _, resource in wanted.desired[read.hosts[0].id].placed]
    (folder / "site.yml").write_text(yaml.safe_dump(playbook(resources), sort_keys=False))
    config = folder / "home" / "l1" / "clusters" / read.cluster / "ssh_config"
    names = {host.id: {"ansible_ssh_common_args": f"-F {config}"} for host in read.hosts}
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": names}}))

    environment = {**os.environ, "OGAI_HOME": str(folder / "home"), "ANSIBLE_PIPELINING": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"

    def run(*words: str) -> None:
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode or ("ansible-playbook" in words[0] and "changed=0" not in done.stdout):
            raise RuntimeError(f"{words[0]}: {done.stdout[-600:]} {done.stderr[-600:]}")

    def ours() -> None:
        run(sys.executable, "-c", "from l1_podsys.cli import main; main()", "plan", str(inventory), "--json")

    def theirs() -> None:
        run("ansible-playbook", "-i", "hosts.yml", "--check", "--forks", "32", "site.yml")

    time.sleep(2)
    before, start = usage_s(), time.monotonic()
    time.sleep(5)
    idle = (usage_s() - before) / (time.monotonic() - start)
    rows = {"ours": [], "peer": []}  # type: dict[str, list[tuple[float, float]]]
    for _ in range(ROUNDS):  # in turn, so that both meet the same load
        rows["ours"].append(cpu_of(ours, idle))
        rows["peer"].append(cpu_of(theirs, idle))
    version = subprocess.check_output(["ansible", "--version"], env=environment, text=True).split("]")[0]
    mine, other = (statistics.median(cpu for cpu, _ in rows[name]) / HOSTS for name in ("ours", "peer"))
    walls = {name: statistics.median(wall for _, wall in rows[name]) for name in rows}
    how = (
        f"{HOSTS} systemd-nspawn hosts, {len(resources)} resources, nothing to change, CPU of controller and "
        f"targets from one cgroup, median of {ROUNDS}; wall {walls['ours']:.1f} s and {walls['peer']:.1f} s"
    )
    return [
        {
            "layer": "l1",
            "name": "plan without a difference, CPU per host",
            "ours": round(mine, 3),
            "peer": round(other, 3),
            "peer_version": f"ansible-playbook --check, {version.replace('[', '').strip()}",
            "ratio": round(other / mine, 1),
            "unit": "CPU s per host",
            "how": how,
            "bar": f"at least {BAR:g} times less",
            "ok": other / mine >= BAR,
        }
    ]


def main() -> int:
    missing = [name for name in ("systemd-nspawn", "mmdebstrap", "ssh") if shutil.which(name) is None]
    if os.geteuid() != 0 or missing or not GROUP.parent.is_dir():
        lacks = ", ".join(missing) or "root and a cpuacct cgroup"
        print(f"bench_plan needs {lacks}", file=sys.stderr)
        print("[]")
        return 0
    GROUP.mkdir(exist_ok=True)
    (GROUP / "cgroup.procs").write_text(str(os.getpid()))
    module = fixture()
    with tempfile.TemporaryDirectory(prefix="podsys-bench-") as name:
        hosts = module.Hosts(Path(name), 210 + os.getpid() % 40)
        try:
            hosts.up(HOSTS)
            rows = measure(hosts, Path(name))
        finally:
            hosts.down()
            (GROUP.parent / "cgroup.procs").write_text(str(os.getpid()))
    for _ in range(50):
        try:
            GROUP.rmdir()
            break
        except OSError:
            time.sleep(0.1)
    print(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
