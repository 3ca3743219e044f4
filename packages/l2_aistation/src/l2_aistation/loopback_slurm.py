"""A real Slurm on one machine: munged, slurmctld and a slurmd for each node, all on 127.0.0.1 with
sockets, ports and state of their own.  For tests and measurements; needs root.

    with LoopbackSlurm(folder, nodes=4, accelerators=8) as slurm:
        subprocess.run(["sinfo"], env=slurm.environment)

Accelerators are character devices with the numbers of /dev/null, so jobs are given some that they can
open.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import stat
import subprocess
import time
from pathlib import Path
from typing import Self

from ._kit.problems import Failed

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scancel")
_START_S = 30.0
_NULL = os.makedev(1, 3)


def missing() -> str:
    """What this machine lacks for a real Slurm, "" where nothing."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    lacking = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if lacking:
        return f"needs {', '.join(lacking)} (Debian: munge, slurmctld, slurmd, slurm-client)"
    return "" if os.geteuid() == 0 else "needs root: slurmd and device files"


class LoopbackSlurm:
    """Nodes n1, n2 … of 8 cores and 8,000 MiB (said, not had) with fake accelerators."""

    def __init__(self, folder: Path, *, nodes: int = 4, accelerators: int = 8) -> None:
        self.folder, self.accelerators = folder, accelerators
        self.names = [f"n{number}" for number in range(1, nodes + 1)]
        self.environment = {
            **os.environ,
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin",
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            self._configure()
            self._start_munge()
            self.start_controller()
            for name in self.names:
                self.start_node(name)
            self._wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _configure(self) -> None:
        folder, host = self.folder, socket.gethostname().split(".")[0]
        for name in ("state", "spool"):
            (folder / name).mkdir(parents=True)
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        for name in self.names:
            (folder / "devices" / name).mkdir(parents=True)
            for number in range(self.accelerators):
                os.mknod(folder / "devices" / name / f"gpu{number}", stat.S_IFCHR | 0o666, _NULL)
        ports = _free_ports(len(self.names) + 1)
        lines = [
            f"NodeName={name} Name=gpu File={folder}/devices/{name}/gpu[0-{self.accelerators - 1}]"
            for name in self.names
        ]
        (folder / "gres.conf").write_text("\n".join(lines) + "\n", encoding="ascii")
        gres = f" Gres=gpu:{self.accelerators}" if self.accelerators else ""
        nodes = [
            f"NodeName={name} NodeAddr=127.0.0.1 NodeHostname={host} Port={port} CPUs=8 RealMemory=8000{gres}"
            for name, port in zip(self.names, ports, strict=False)
        ]
        text = _CONFIGURATION.format(folder=folder, host=host, port=ports[-1], nodes="\n".join(nodes))
        (folder / "slurm.conf").write_text(text, encoding="ascii")

    def _start_munge(self) -> None:
        files = {
            "key-file": "munge.key",
            "socket": "munge.sock",
            "pid-file": "munged.pid",
            "log-file": "munged.log",
            "seed-file": "munged.seed",
        }
        options = [f"--{option}={self.folder / name}" for option, name in files.items()]
        self._start("munged", "munged", "-F", "-f", *options)
        until = time.monotonic() + _START_S
        while not (self.folder / "munge.sock").exists() and time.monotonic() < until:
            time.sleep(0.05)

    def start_controller(self) -> None:
        """Starts slurmctld over the state that is there."""
        self._start("slurmctld", "slurmctld", "-D")

    def start_node(self, name: str) -> None:
        """Starts a node's slurmd."""
        self._start(name, "slurmd", "-D", "-N", name)

    def _start(self, name: str, program: str, *arguments: str) -> None:
        found = shutil.which(program, path=self.environment["PATH"]) or program
        with open(self.folder / f"{name}.out", "ab") as output:
            self.processes[name] = subprocess.Popen(
                [found, *arguments],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def _wait(self) -> None:
        until = time.monotonic() + _START_S
        while (states := self.run("sinfo", "-h", "-N", "-o", "%T").split()) != ["idle"] * len(self.names):
            ended = [name for name, process in self.processes.items() if process.poll() is not None]
            if time.monotonic() > until or ended:
                raise Failed(
                    f"Slurm's nodes are {states}, ended: {ended}", why=self.log("slurmctld.log")[-2000:]
                )
            time.sleep(0.1)

    def run(self, program: str, *arguments: str) -> str:
        """What one of Slurm's commands prints."""
        done = subprocess.run(
            [program, *arguments], env=self.environment, capture_output=True, text=True, check=False
        )
        return done.stdout

    def log(self, name: str) -> str:
        """A log file's text."""
        path = self.folder / name
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def kill(self, name: str) -> None:
        """kill -9 of a node's slurmd, or of `slurmctld`."""
        self.processes[name].kill()
        self.processes[name].wait()

    def close(self) -> None:
        """Ends the jobs and everything that was started."""
        if self.processes:
            self.run("scancel", "--state=PENDING")
            self.run("scancel", "--signal=KILL", "--full", "--state=RUNNING")
        for process in reversed(list(self.processes.values())):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


_CONFIGURATION = """ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdSpoolDir={folder}/spool/%n
SlurmdParameters=config_overrides
SlurmdTimeout=10
KillWait=2
ReturnToService=2
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0
GresTypes=gpu
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
