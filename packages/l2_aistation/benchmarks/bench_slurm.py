"""Eighteen gangs of 64 nodes x 8 accelerators, submitted to a full-size cluster: ours beside slurmctld.

Both hold 1,250 nodes x 8 accelerators on 40 leaves under 5 spines; both take the same jobs one after the
other over their own interface and write them down.  Counted is the CPU time of the scheduler's process a
job (its idle rate taken off), and for each job the leaves and spines that its nodes lie under.  Nothing is
launched: Slurm's nodes are in State=CLOUD, our engine drops commands.

Slurm is Debian's, unpacked into a temporary folder (apt-get download, dpkg-deb); nothing is installed.
Its jobs take whole nodes (its accelerators need device files that nodes which do not run cannot have).
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
from typing import Any

import httpx
from bench_submit import cpu_s, wait_for
from l2_aistation._kit.tokens import TokenStore

JOBS, NODES = 18, 64
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

    def places(self) -> list[list[int]]:
        """The node numbers of each job."""
        lists = self.run("squeue", "-h", "-t", "CF,R", "-o", "%N").split()
        return [
            [int(name[1:]) for name in self.run("scontrol", "show", "hostnames", one).split()]
            for one in lists
        ]


def idle_rate(pid: int) -> float:
    before, at = cpu_s(pid), time.perf_counter()
    time.sleep(4)
    return (cpu_s(pid) - before) / (time.perf_counter() - at)


def measure_slurm(folder: Path) -> tuple[float, list[list[int]], str]:
    slurm = Slurm(folder)
    slurm.unpack()
    slurm.configure()
    try:
        pid = slurm.start()
        time.sleep(5)
        idle, before, began = idle_rate(pid), cpu_s(pid), time.perf_counter()
        for _ in range(JOBS):
            slurm.run("sbatch", f"-N{NODES}", "-o", "/dev/null", "--wrap", "sleep 1000")
        end = time.monotonic() + 60
        while len(slurm.places()) < JOBS and time.monotonic() < end:
            time.sleep(2)
        used = cpu_s(pid) - before - idle * (time.perf_counter() - began)
        places = slurm.places()
        if not places:
            raise RuntimeError("slurmctld placed nothing: its interface changed?")
        return used / JOBS * 1e3, places, slurm.version
    finally:
        slurm.stop()


def measure_ours(home: Path) -> tuple[float, list[list[int]]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    token = TokenStore(home / "tokens.json").admin_token()
    script = Path(__file__).with_name("bench_submit.py")
    server = subprocess.Popen([sys.executable, script, "--serve", home, str(port)])
    spec = {
        "name": "gang",
        "tasks": [{"count": NODES, "command": ["x"], "resources": {"cpu_cores": 128, "accelerators": 8}}],
    }
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(url)
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=60) as http:
            while http.get("/pool").json()["up"] < 1250:
                time.sleep(0.3)
            time.sleep(1)
            idle, before, began = idle_rate(server.pid), cpu_s(server.pid), time.perf_counter()
            names = [http.post("/jobs", json=spec).json()["id"] for _ in range(JOBS)]
            used = cpu_s(server.pid) - before - idle * (time.perf_counter() - began)
            places = [
                [
                    int(place["node"][1:])
                    for place in http.get(f"/jobs/{name}").json()["attempts"][0]["placement"]
                ]
                for name in names
            ]
        return used / JOBS * 1e3, places
    finally:
        server.kill()
        server.wait()


def spread(places: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Mean leaves and spines a job."""
    leaves = [len({number // 32 for number in nodes}) for nodes in places]
    spines = [len({number // 256 for number in nodes}) for nodes in places]
    return sum(leaves) / len(leaves), sum(spines) / len(spines)


def rows() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as home:
        ours, our_places = measure_ours(Path(home))
    how = f"{JOBS} gangs of {NODES}x8 in 1,250x8, one after the other, durable; launching left out"
    base = {"layer": "l2", "how": how}
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        why = "not run: needs apt-get and root"
        return [
            {**base, "name": "CPU a gang, submit to placed", "ours": round(ours, 2), "peer": why, "ok": None}
        ]
    with tempfile.TemporaryDirectory() as folder:
        theirs, their_places, version = measure_slurm(Path(folder))
    mine, slurm = spread(our_places), spread(their_places)
    peer = {"peer": "slurmctld topology/tree", "peer_version": version}
    table = [
        ("CPU a gang, submit to placed", ours, theirs, "ms of CPU a job", 1 / 8),
        ("leaves a gang, mean", mine[0], slurm[0], "leaves", 1.0),
        ("spines a gang, mean", mine[1], slurm[1], "spines", 1.0),
    ]
    return [
        {
            **base,
            **peer,
            "name": name,
            "ours": round(one, 3),
            "ratio": round(one / other, 3),
            "unit": f"{unit} (peer {other:.2f}, {len(their_places)} jobs placed)",
            "bar": bar,
            "ok": one / other <= bar,
        }
        for name, one, other, unit, bar in table
    ]


if __name__ == "__main__":
    json.dump(rows(), sys.stdout, indent=1)
