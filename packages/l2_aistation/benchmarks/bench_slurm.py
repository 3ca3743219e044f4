"""The same jobs submitted to the same full-size cluster: ours beside slurmctld, CPU time a job.

Both hold 1,250 nodes x 8 accelerators on 40 leaves under 5 spines; both take the same jobs one after the
other over their own interface and write them down: gangs of 64 nodes, whole nodes, eighths of a node (one
accelerator with its cores).  Counted is the CPU time of the scheduler's process a job (its idle rate taken
off), and for each gang the leaves and spines that its nodes lie under, and what a ring all-reduce of its
ranks sends across leaves.  Nothing is launched: Slurm's nodes are in State=CLOUD, our engine drops commands.

Slurm is Debian's, unpacked into a temporary folder (apt-get download, dpkg-deb); nothing is installed.
Its jobs take nodes or cores (its accelerators need device files that nodes which do not run cannot have).
Without apt-get, or as an ordinary user, the row says so and is not counted.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from bench_submit import WARM_S, cpu_s, wait_for
from l2_aistation._kit.tokens import TokenStore


class Load(NamedTuple):
    """Jobs of one kind: how many, what each takes."""

    name: str
    jobs: int
    nodes: int
    cores: int
    accelerators: int


GANGS = Load("gang of 64 nodes", 18, 64, 128, 8)
FIRST = Load("first", 64, 1, 16, 1)
"""Submitted to both before anything is counted: schedulers run for weeks, so none is measured cold."""

LOADS = (GANGS, Load("whole node", 300, 1, 128, 8), Load("eighth of a node", 400, 1, 16, 1))

PACKAGES = (
    "libhwloc15",
    "liblua5.1-0",
    "libmunge2",
    "munge",
    "slurm-wlm-basic-plugins",
    "slurm-client",
    "slurmctld",
)
LIBRARIES = "usr/lib/x86_64-linux-gnu"


class Slurm:
    """A slurmctld with 1,250 nodes that never start anything."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.environment = {
            **os.environ,
            "LD_LIBRARY_PATH": f"{self.root / LIBRARIES}:{self.root / LIBRARIES / 'slurm-wlm'}",
            "SLURM_CONF": str(folder / "slurm.conf"),
        }
        self.processes: list[subprocess.Popen[bytes]] = []

    def unpack(self) -> None:
        debs = self.folder / "debs"
        debs.mkdir()
        subprocess.run(["apt-get", "download", "-qq", *PACKAGES], cwd=debs, check=True, capture_output=True)
        for deb in debs.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", deb, self.root], check=True)

    def configure(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        (self.folder / "munge.key").write_bytes(secrets.token_bytes(128))
        (self.folder / "munge.key").chmod(0o400)
        (self.folder / "state").mkdir()
        leaves = [f"SwitchName=leaf{n:02d} Nodes=n[{n * 32}-{min(n * 32 + 31, 1249)}]" for n in range(40)]
        spines = [f"SwitchName=spine{n} Switches=leaf[{n * 8:02d}-{n * 8 + 7:02d}]" for n in range(5)]
        (self.folder / "topology.conf").write_text(
            "\n".join([*leaves, *spines, "SwitchName=core Switches=spine[0-4]"]) + "\n"
        )
        (self.folder / "slurm.conf").write_text(
            f"""ClusterName=bench
SlurmctldHost={socket.gethostname()}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge.sock
CredType=cred/munge
PluginDir={self.root}/{LIBRARIES}/slurm-wlm
StateSaveLocation={self.folder}/state
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmctldLogFile={self.folder}/slurmctld.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
TopologyPlugin=topology/tree
SchedulerType=sched/backfill
MessageTimeout=100
PrivateData=cloud
ResumeProgram=/bin/true
SuspendProgram=/bin/true
ResumeTimeout=65000
SuspendTime=65000
NodeName=n[0-1249] CPUs=128 State=CLOUD NodeAddr=127.0.0.1 Port=[20000-21249]
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=EXCLUSIVE
PartitionName=parts Nodes=ALL MaxTime=INFINITE State=UP OverSubscribe=NO
"""
        )

    def start(self) -> int:
        munged = [
            str(self.root / "usr/sbin/munged"),
            "-F",
            "-f",
            f"--key-file={self.folder}/munge.key",
            f"--socket={self.folder}/munge.sock",
            f"--pid-file={self.folder}/munged.pid",
            f"--log-file={self.folder}/munged.log",
            f"--seed-file={self.folder}/munged.seed",
        ]
        control = [str(next(self.root.glob("usr/sbin/slurmctld*"))), "-D", "-c"]
        for words in (munged, control):
            self.processes.append(
                subprocess.Popen(
                    words, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            )
            time.sleep(1)
        end = time.monotonic() + 60
        while "n[0-1249]" not in self.run("sinfo", "-h", "-o", "%N"):
            if time.monotonic() > end:
                raise RuntimeError("slurmctld does not answer")
            time.sleep(0.3)
        return self.processes[-1].pid

    def run(self, program: str, *words: str) -> str:
        done = subprocess.run(
            [str(self.root / "usr/bin" / program), *words],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    @property
    def version(self) -> str:
        return self.run("sinfo", "--version").split()[-1]

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
            process.wait(timeout=60)

    def submit(self, load: Load) -> None:
        partition = ["-p", "all"] if load.cores == 128 else ["-p", "parts", "-c", str(load.cores)]
        self.run("sbatch", *partition, f"-N{load.nodes}", "-o", "/dev/null", "--wrap", "sleep 1000")

    def placed(self) -> int:
        return len(self.run("squeue", "-h", "-t", "CF,R", "-o", "%i").split())

    def places(self) -> list[list[int]]:
        """The node numbers of each job, in the order of its ranks."""
        lists = self.run("squeue", "-h", "-t", "CF,R", "-o", "%N").split()
        return [
            [int(name[1:]) for name in self.run("scontrol", "show", "hostnames", one).split()]
            for one in lists
        ]


def idle_rate(pid: int) -> float:
    before, at = cpu_s(pid), time.perf_counter()
    time.sleep(4)
    return (cpu_s(pid) - before) / (time.perf_counter() - at)


class Seen(NamedTuple):
    """CPU a job in ms, jobs placed, and the nodes of each (gangs only)."""

    cpu_ms: float
    placed: int
    places: list[list[int]]


def measure_slurm(folder: Path, load: Load) -> tuple[Seen, str]:
    slurm = Slurm(folder)
    slurm.unpack()
    slurm.configure()
    try:
        pid = slurm.start()
        for _ in range(FIRST.jobs):
            slurm.submit(FIRST)
        end = time.monotonic() + 60
        while slurm.placed() < FIRST.jobs and time.monotonic() < end:
            time.sleep(1)
        time.sleep(5)
        idle, before, began = idle_rate(pid), cpu_s(pid), time.perf_counter()
        for _ in range(load.jobs):
            slurm.submit(load)
        end = time.monotonic() + 90
        while slurm.placed() < FIRST.jobs + load.jobs and time.monotonic() < end:
            time.sleep(2)
        used = cpu_s(pid) - before - idle * (time.perf_counter() - began)
        placed = slurm.placed() - FIRST.jobs
        if placed <= 0:
            raise RuntimeError("slurmctld placed nothing: its interface changed?")
        places = [nodes for nodes in slurm.places() if len(nodes) > 1] if load is GANGS else []
        return Seen(used / placed * 1e3, placed, places), slurm.version
    finally:
        slurm.stop()


def spec_of(load: Load) -> dict[str, Any]:
    """The job-spec of a load's jobs."""
    needs = {"cpu_cores": load.cores, "accelerators": load.accelerators}
    return {"name": "job", "tasks": [{"count": load.nodes, "command": ["x"], "resources": needs}]}


def measure_ours(home: Path, load: Load) -> Seen:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    token = TokenStore(home / "tokens.json").admin_token()
    script = Path(__file__).with_name("bench_submit.py")
    server = subprocess.Popen([sys.executable, script, "--serve", home, str(port)])
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(url)
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=60) as http:
            while http.get("/pool").json()["up"] < 1250:
                time.sleep(0.3)
            time.sleep(WARM_S)
            for _ in range(FIRST.jobs):
                http.post("/jobs", json=spec_of(FIRST))
            spec = spec_of(load)
            idle, before, began = idle_rate(server.pid), cpu_s(server.pid), time.perf_counter()
            names = [http.post("/jobs", json=spec).json()["id"] for _ in range(load.jobs)]
            used = cpu_s(server.pid) - before - idle * (time.perf_counter() - began)
            views = [http.get(f"/jobs/{name}").json()["attempts"] for name in names]
        places = [[int(place["node"][1:]) for place in view[0]["placement"]] for view in views if view]
        return Seen(used / len(places) * 1e3, len(places), places)
    finally:
        server.kill()
        server.wait()


def leaves_and_spines(nodes: Sequence[int]) -> tuple[int, int]:
    """How many leaves and spines a job lies under."""
    return len({number // 32 for number in nodes}), len({number // 256 for number in nodes})


def crossings(nodes: Sequence[int]) -> int:
    """How many links of the ring through the ranks go from one leaf to another: a share of its bytes each."""
    return sum(one // 32 != other // 32 for one, other in zip(nodes, [*nodes[1:], nodes[0]], strict=True))


def compare_places(
    ours: list[list[int]], theirs: list[list[int]], base: dict[str, Any]
) -> list[dict[str, Any]]:
    """Gang by gang, in the order of their spread: never more leaves or spines than Slurm."""
    mine = sorted(leaves_and_spines(nodes) for nodes in ours)
    slurm = sorted(leaves_and_spines(nodes) for nodes in theirs)
    pairs = list(zip(mine, slurm, strict=False))
    worse = sum(one[0] > other[0] or one[1] > other[1] for one, other in pairs)
    rows = [
        ("leaves a gang, mean", [one[0] for one in mine], [one[0] for one in slurm], "leaves"),
        ("spines a gang, mean", [one[1] for one in mine], [one[1] for one in slurm], "spines"),
        ("ring links across leaves, mean", list(map(crossings, ours)), list(map(crossings, theirs)), "links"),
    ]
    table = []
    for name, one, other, unit in rows:
        left, right = sum(one) / len(one), sum(other) / len(other)
        table.append(
            {
                **base,
                "name": name,
                "ours": round(left, 3),
                "ratio": round(left / right, 3) if right else None,
                "unit": f"{unit} (peer {right:.2f})",
                "bar": 1.0,
                "ok": left <= right,
            }
        )
    table.append(
        {
            **base,
            "name": "gangs wider than Slurm's",
            "ours": worse,
            "ratio": None,
            "unit": "gangs",
            "bar": 0,
            "ok": not worse,
        }
    )
    return table


def rows() -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = []
    for load in LOADS:
        with tempfile.TemporaryDirectory() as home:
            ours = measure_ours(Path(home), load)
        how = f"{load.jobs} jobs in 1,250x8 after {FIRST.jobs} small ones, one by one, durable; not launched"
        base = {"layer": "l2", "how": how}
        name = f"CPU a job, {load.name}, submit to placed"
        if shutil.which("apt-get") is None or os.geteuid() != 0:
            peer = {"peer": "not run: needs apt-get and root", "peer_version": None, "ratio": None}
            bar = {"unit": "ms of CPU a job", "bar": 1 / 8, "ok": None}
            table.append({**base, **peer, **bar, "name": name, "ours": round(ours.cpu_ms, 3)})
            continue
        with tempfile.TemporaryDirectory() as folder:
            theirs, version = measure_slurm(Path(folder), load)
        base |= {"peer": "slurmctld topology/tree", "peer_version": version}
        ratio = ours.cpu_ms / theirs.cpu_ms
        table.append(
            {
                **base,
                "name": name,
                "ours": round(ours.cpu_ms, 3),
                "ratio": round(ratio, 3),
                "unit": f"ms of CPU a job (peer {theirs.cpu_ms:.2f}, {theirs.placed} jobs placed)",
                "bar": 1 / 8,
                "ok": ratio <= 1 / 8,
            }
        )
        if load is GANGS:
            table += compare_places(ours.places, theirs.places, base)
    return table


if __name__ == "__main__":
    json.dump(rows(), sys.stdout, indent=1)
