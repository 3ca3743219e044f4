"""A cluster on one machine: the platform and an agent for each node as real processes on loopback
addresses.  A node can vanish, an agent or the platform can be killed.  For tests and measurements.

    with LoopbackCluster(folder, nodes=4, spares=1) as cluster:
        job = cluster.client.submit(spec)
        cluster.kill_node("n2")
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from ._kit.problems import Failed, Problem, Unavailable
from ._kit.tokens import TokenStore
from .broker import url_for_agents
from .client import Aistation
from .settings import Settings
from .supervisor import processes
from .supervisor.environment import memory_of
from .supervisor.folder import JobFolder

_START_S = 60.0
_HOME = "OGAI_HOME"


class LoopbackCluster:
    """`nodes` working nodes n1, n2 … on two leaves, then `spares` spares."""

    def __init__(self, folder: Path, *, nodes: int = 4, spares: int = 1, **settings: str) -> None:
        self.folder = folder
        self.shared = folder / "shared"
        self.names = [f"n{number}" for number in range(1, nodes + spares + 1)]
        self.spares = set(self.names[nodes:])
        self._settings = {"heartbeat_s": "0.5", "node_lost_s": "2.5", "port": str(_free_port()), **settings}
        self._broker_port = _free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._clients: list[Aistation] = []

    def __enter__(self) -> Self:
        self.shared.mkdir(parents=True, exist_ok=True)
        try:
            self.start_service()
            self.client.import_pool(self.report())
            for name in self.names:
                self.start_agent(name)
            self._wait_for_nodes()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def settings(self) -> Settings:
        """The platform's settings."""
        return Settings.load(
            home=self.folder / "platform", shared_dir=self.shared, port=int(self._settings["port"])
        )

    @property
    def client(self) -> Aistation:
        """A client with the operator's token."""
        if not self._clients:
            settings = self.settings()
            self._clients.append(
                Aistation(settings.service_url, TokenStore(settings.tokens_file).admin_token())
            )
        return self._clients[0]

    def start_service(self) -> None:
        """Starts the platform and waits until it answers."""
        self._start("platform", "serve", "--broker-listen", f"127.0.0.1:{self._broker_port}")
        until = time.monotonic() + _START_S
        while True:
            try:
                self.client.pool()
                return
            except Unavailable:
                if time.monotonic() > until or self.processes["platform"].poll() is not None:
                    raise Failed("the platform did not start", why=self.log_of("platform")[-2000:]) from None
            time.sleep(0.1)

    def start_agent(self, name: str) -> None:
        """Starts a node's agent; the node's state is where it was."""
        self._start(name, "agent", "--node", name)

    def _start(self, name: str, *arguments: str) -> None:
        home = self.folder / name
        home.mkdir(parents=True, exist_ok=True)
        variables = {f"OGAI_L2_{key.upper()}": value for key, value in self._settings.items()}
        variables |= {_HOME: str(home), "OGAI_L2_SHARED_DIR": str(self.shared)}
        if name != "platform":
            variables["OGAI_L2_BROKER_URL"] = url_for_agents(self.settings())
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "l2_aistation", *arguments],
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def log_of(self, name: str) -> str:
        """What a process of the cluster has printed."""
        return (self.folder / f"{name}.log").read_text("utf-8", "replace")

    def _wait_for_nodes(self) -> None:
        until = time.monotonic() + _START_S
        while True:
            states = {row["id"]: row["state"] for row in self.client.pool()["nodes"]}
            beating = [name for name in self.names if self._has_beaten(name)]
            if len(beating) == len(self.names):
                return
            if time.monotonic() > until:
                raise Failed(f"not every node came: {states}", why=self.log_of(self.names[0])[-2000:])
            time.sleep(0.1)

    def _has_beaten(self, name: str) -> bool:
        from .broker import channels, urls

        with urls.client(url_for_agents(self.settings())) as connection:
            return bool(connection.exists(f"{channels.BEAT}{name}"))

    def report(self) -> dict[str, Any]:
        """The cluster-report that the pool is imported from."""
        half = (len(self.names) + 1) // 2
        leaves = [
            {
                "level": "leaf",
                "name": f"leaf{number}",
                "children": [{"level": "node", "name": name, "children": []} for name in members],
            }
            for number, members in enumerate((self.names[:half], self.names[half:]), start=1)
        ]
        nodes = [
            {
                "id": name,
                "hostname": name,
                "role": "spare" if name in self.spares else "member",
                "addresses": {"compute": f"127.0.0.{number}"},
                "cpu_cores": 4,
                "memory_bytes": 8 << 30,
            }
            for number, name in enumerate(self.names, start=2)
        ]
        topology = {"level": "site", "name": "loopback", "children": leaves}
        return {
            "schema": "ogai.cluster-report/v1",
            "cluster": "loopback",
            "nodes": nodes,
            "topology": topology,
        }

    def kill(self, name: str) -> None:
        """kill -9 of one process: a node's agent, or `platform`."""
        self.processes[name].kill()
        self.processes[name].wait()

    def kill_node(self, name: str) -> None:
        """The node vanishes: agent, supervisors, fork servers and ranks, at once."""
        processes.kill_all(self.processes_of(name))
        self.processes[name].wait()
        processes.kill_all(self.processes_of(name))

    def processes_of(self, name: str) -> list[int]:
        """Everything that runs on a node, found by where its state is."""
        needle = f"{self.folder / name}/".encode()
        home = f"{_HOME}={self.folder / name}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    variables = (entry / "environ").read_bytes().split(b"\0")
                    arguments = (entry / "cmdline").read_bytes()
                    if home in variables or needle in arguments:
                        found.append(int(entry.name))
        return found

    def close(self) -> None:
        """Ends everything, the ranks included."""
        for client in self._clients:
            client.close()
        for name, process in self.processes.items():
            if name != "platform":
                process.kill()
        if "platform" in self.processes:
            self.processes["platform"].send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.processes["platform"].wait(10)
            self.processes["platform"].kill()
        for name, process in self.processes.items():
            process.wait()
            while left := [pid for pid in self.processes_of(name) if _lives(pid)]:
                processes.kill_all(left)
                time.sleep(0.05)
        for journal in self.folder.rglob("events.jsonl"):  # a killed supervisor leaves its job's memory
            shutil.rmtree(memory_of(JobFolder(journal.parent).mark), ignore_errors=True)


def _lives(pid: int) -> bool:
    row = processes.entry(pid)
    return row is not None and row.state != "Z"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


__all__ = ["LoopbackCluster", "Problem"]
