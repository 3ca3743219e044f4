"""Supervisors as real processes: killed, superseded, with a warm fork server, with torn journals."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from l2_aistation._kit.problems import BadInput
from l2_aistation.core.events import (
    AttendTasks,
    EndTasks,
    Event,
    StartTasks,
    StepReported,
    TaskExited,
    TaskLaunch,
    TasksEnded,
    TaskStalled,
    TaskStarted,
    WarmTasks,
)
from l2_aistation.supervisor import processes
from l2_aistation.supervisor.folder import JobFolder
from l2_aistation.supervisor.journal import Journal, Reader
from l2_aistation.supervisor.runtime import NodeRuntime
from l2_aistation.testing import SLEEP, alive, start

WITHIN_S = 30.0


class Node:
    """A runtime that is looked after now and then, and everything it told."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.shared = folder, folder / "shared"
        self.runtime = NodeRuntime("n1", folder / "node", self.shared)
        self.events: list[Event] = []

    def again(self) -> None:
        """The agent was killed and is started again."""
        self.runtime = NodeRuntime("n1", self.folder / "node", self.shared)

    def look(self) -> None:
        self.runtime.tend()
        for item in list(self.runtime.events()):
            self.events.append(item.event)
            self.runtime.acknowledge(item.source, item.number)

    def wait(self, kind: type[Any], count: int = 1, **members: Any) -> list[Any]:
        return self.until(
            lambda: [
                event
                for event in self.events
                if isinstance(event, kind)
                and all(getattr(event, key) == value for key, value in members.items())
            ],
            count,
        )

    def until(self, find: Callable[[], list[Any]], count: int = 1) -> list[Any]:
        end = time.monotonic() + WITHIN_S
        while len(found := find()) < count:
            assert time.monotonic() < end, self.events
            self.look()
            time.sleep(0.05)
        return found

    @property
    def job(self) -> JobFolder:
        return JobFolder(self.folder / "node" / "job")

    def supervisors(self) -> list[int]:
        return [
            pid
            for pid in processes.marked(self.job.mark)
            if b"l2_aistation.supervisor" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]

    def fork_servers(self) -> list[int]:
        """Ranks that a server forked have its command line: the server is their elder."""
        pids = [
            pid
            for pid in processes.marked(self.job.mark)
            if b"forkserver.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        return sorted(pids)[:1]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    node.shared.mkdir()
    yield node
    assert processes.kill_marked(node.job.mark)


def tasks(*commands: list[str], **environment: str) -> tuple[TaskLaunch, ...]:
    return tuple(
        TaskLaunch(rank, rank, "worker", tuple(command), {"RANK": str(rank), **environment})
        for rank, command in enumerate(commands)
    )


def test_a_killed_supervisor_takes_its_ranks_along_and_is_told(node: Node) -> None:
    """Even a daemon that a rank left in a session of its own is found and ended."""
    code = (
        "import os, subprocess, sys, time; "
        "child = subprocess.Popen([sys.executable, '-c', 'import os, time; os.setsid(); time.sleep(600)']); "
        "open('daemon', 'w').write(str(child.pid)); time.sleep(600)"
    )
    node.runtime.handle(start("job", "n1", code))
    rank = node.wait(TaskStarted)[0].pid
    node.until(
        lambda: [1] if (node.shared / "daemon").exists() and (node.shared / "daemon").read_text() else []
    )
    daemon = int((node.shared / "daemon").read_text())
    processes.kill_all(node.supervisors())
    exited = node.wait(TaskExited)[0]
    assert exited.lost
    assert "supervisor of this node was killed" in exited.tail[0]
    assert (alive(rank), alive(daemon)) == (False, False)
    node.runtime.handle(EndTasks("job", 1, "n1"))
    node.wait(TasksEnded)


def test_neither_supervisor_nor_ranks_hold_what_their_starter_had_open(node: Node) -> None:
    """A lock that a user's shell passed on would be held as long as the job."""
    with open(node.folder / "lock", "w", encoding="utf-8") as lock:
        os.set_inheritable(lock.fileno(), True)
        launches = tasks(["python", "-c", SLEEP], ["python", "-m", "asyncio"], OGAI_PREIMPORT="json")
        node.runtime.handle(StartTasks("job", 1, "n1", "t", 2, launches))
        node.wait(TaskStarted, 2)
        for pid in processes.marked(node.job.mark):
            held = {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()}
            assert lock.name not in held


def test_a_rank_is_never_started_twice(node: Node) -> None:
    """A supervisor that was killed after its ranks began does not begin them again."""
    node.runtime.handle(start("job", "n1", SLEEP))
    node.wait(TaskStarted)
    processes.kill_all(node.supervisors())
    node.wait(TaskExited)
    node.again()
    node.runtime.handle(start("job", "n1", SLEEP))
    node.wait(TaskExited, 2)
    assert len({event.pid for event in node.wait(TaskStarted)}) == 1


def test_the_next_attempt_follows_a_killed_supervisor(node: Node) -> None:
    node.runtime.handle(start("job", "n1", SLEEP))
    node.wait(TaskStarted)
    processes.kill_all(node.supervisors())
    node.wait(TaskExited)
    node.runtime.handle(EndTasks("job", 1, "n1", keep_warm=True))
    node.wait(TasksEnded)
    node.runtime.handle(start("job", "n1", SLEEP, attempt=2))
    assert alive(node.wait(TaskStarted, attempt=2)[0].pid)


def test_an_agent_that_is_killed_and_comes_back_goes_on(node: Node) -> None:
    node.runtime.handle(start("job", "n1", "import time; time.sleep(0.5); print('after')"))
    node.wait(TaskStarted)
    node.again()
    assert node.runtime.living() == ()
    node.look()
    assert node.wait(TaskExited)[0].tail == ("after",)


def test_a_node_that_was_cut_off_ends_its_ranks_when_a_later_attempt_began(node: Node) -> None:
    """The shared folder tells; no command has to come through."""
    node.runtime.handle(start("job", "n1", SLEEP))
    pid = node.wait(TaskStarted)[0].pid
    (node.shared / ".aistation" / "job").mkdir(parents=True, exist_ok=True)
    (node.shared / ".aistation" / "job" / "attempt").write_text("2\n")
    node.wait(TasksEnded, attempt=1)
    assert not alive(pid)


def test_a_released_supervisor_goes(node: Node) -> None:
    node.runtime.handle(start("job", "n1", "pass"))
    node.wait(TaskExited)
    node.runtime.handle(EndTasks("job", 1, "n1", keep_warm=True))
    node.wait(TasksEnded)
    assert node.supervisors()
    node.runtime.handle(EndTasks("job", 1, "n1"))
    node.until(lambda: [] if node.supervisors() else [1])


def test_memory_lasts_from_attempt_to_attempt_and_goes_with_the_job(node: Node) -> None:
    """What the checkpoint library keeps in memory outlives a killed rank, not the job."""
    keep = "import os, pathlib; m = pathlib.Path(os.environ['OGAI_MEMORY_DIR']); m.mkdir(exist_ok=True)"
    node.runtime.handle(start("job", "n1", f"{keep}; (m / 'kept').touch(); os.kill(os.getpid(), 9)"))
    node.wait(TaskExited)
    node.runtime.handle(EndTasks("job", 1, "n1", keep_warm=True))
    node.wait(TasksEnded)
    node.runtime.handle(start("job", "n1", f"{keep}; print(m, (m / 'kept').exists())", attempt=2))
    folder, there = node.wait(TaskExited, attempt=2)[0].tail[0].split()
    assert there == "True"
    node.runtime.handle(EndTasks("job", 2, "n1"))
    node.until(lambda: [] if Path(folder).exists() else [1])


PROGRAM = """
import json, os, sys
print(sys.argv, __name__, "json" in sys.modules, os.environ["RANK"], os.getppid(), "wave" in sys.modules)
from l2_aistation.progress import step
step(1, loss=float("nan"))
"""


def test_a_warm_node_forks_ranks_that_have_their_imports(node: Node) -> None:
    """The forked rank looks like `python program.py` and is the supervisor's child."""
    (node.shared / "program.py").write_text(PROGRAM)
    launches = tasks(["python", "program.py", "a", "b"], OGAI_PREIMPORT="wave, no_such_module_here")
    node.runtime.handle(WarmTasks("job", 1, "n1", "tenant", 1, launches))
    node.until(node.fork_servers)
    server = node.fork_servers()
    node.runtime.handle(StartTasks("job", 2, "n1", "tenant", 1, launches))
    tail = node.wait(TaskExited)[0].tail
    assert tail == (f"['program.py', 'a', 'b'] __main__ True 0 {node.supervisors()[0]} True",)
    assert node.fork_servers() == server
    assert str(node.wait(StepReported)[0].loss) == "nan"


def test_a_module_is_run_as_with_dash_m(node: Node) -> None:
    (node.shared / "pack").mkdir(parents=True)
    (node.shared / "pack" / "__init__.py").write_text("")
    (node.shared / "pack" / "main.py").write_text(
        "import sys\nfrom . import __name__ as n\nprint(n, sys.argv[1:])\nraise SystemExit(4)"
    )
    node.runtime.handle(
        StartTasks("job", 1, "n1", "t", 1, tasks(["python", "-m", "pack.main", "x"], OGAI_PREIMPORT="json"))
    )
    exited = node.wait(TaskExited)[0]
    assert (exited.code, exited.tail) == (4, ("pack ['x']",))


def test_a_killed_fork_server_is_done_without(node: Node) -> None:
    launches = tasks(["python", "-c", SLEEP], ["python", "-m", "this"], OGAI_PREIMPORT="json")
    node.runtime.handle(WarmTasks("job", 1, "n1", "tenant", 2, launches))
    processes.kill_all(node.until(node.fork_servers))
    node.runtime.handle(StartTasks("job", 2, "n1", "tenant", 2, launches))
    assert node.wait(TaskExited, rank=1)[0].code == 0
    node.wait(TaskStarted, rank=0)


def test_a_crash_in_a_forked_rank_leaves_server_and_others_alone(node: Node) -> None:
    (node.shared / "crash.py").write_text("import ctypes; ctypes.string_at(0)")
    (node.shared / "wait.py").write_text("import time; time.sleep(600)")
    launches = tasks(["python", "crash.py"], ["python", "wait.py"], OGAI_PREIMPORT="ctypes")
    node.runtime.handle(StartTasks("job", 1, "n1", "tenant", 2, launches))
    assert node.wait(TaskExited, rank=0)[0].signal == signal.SIGSEGV
    assert alive(node.wait(TaskStarted, rank=1)[0].pid)
    assert node.fork_servers()


def test_a_hang_is_seen_from_the_steps(node: Node) -> None:
    code = "import time; from l2_aistation.progress import step; step(1); step(2); time.sleep(600)"
    command = StartTasks("job", 1, "n1", "t", 1, tasks(["python", "-c", code]), hang_s=0.5)
    node.runtime.handle(command)
    stalled = node.wait(TaskStalled)[0]
    assert (stalled.kind, stalled.rank) == ("hang", 0)
    assert "after step 2" in stalled.evidence[0]


def test_an_early_attend_finds_nothing_lost(node: Node) -> None:
    """A command that is being followed is not mistaken for one that is unknown."""
    node.runtime.handle(start("job", "n1", SLEEP))
    node.runtime.handle(AttendTasks("job", 1, "n1", (0,)))
    node.wait(TaskStarted)
    assert not [event for event in node.events if isinstance(event, TaskExited)]


def test_shared_storage_that_is_not_mounted_is_told_and_not_replaced(node: Node) -> None:
    """A folder made in its place would swallow the checkpoints."""
    node.shared.rmdir()
    node.runtime.handle(start("job", "n1", SLEEP))
    exited = node.wait(TaskExited)[0]
    assert (exited.code, exited.tail) == (127, (f"the shared folder {node.shared} is not there",))
    node.runtime.handle(EndTasks("job", 1, "n1"))
    node.wait(TasksEnded)
    assert not node.shared.exists()


@pytest.mark.parametrize("name", ["../evil", "", "a/b", ".hidden", "x" * 101])
def test_a_job_cannot_be_named_out_of_its_folder(node: Node, name: str) -> None:
    with pytest.raises(BadInput):
        node.runtime.handle(start(name, "n1", SLEEP))


def test_a_journal_survives_a_kill_in_the_middle_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    journal = Journal(path)
    for number in range(3):
        journal.append(TasksEnded("job", number, "n1", 0.0))
    journal.close()
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        kept = whole[:cut].count(b"\n")
        journal = Journal(path)
        assert journal.last == kept
        journal.append(TasksEnded("job", 99, "n1", 0.0))
        journal.close()
        lines = list(Reader(path).new())
        assert [line.number for line in lines] == list(range(1, kept + 2))
        assert isinstance(lines[-1].event, TasksEnded)
        assert lines[-1].event.attempt == 99


def test_a_log_that_is_not_text_is_told_as_far_as_it_can_be(node: Node) -> None:
    code = (
        "import os; os.write(1, b'\\xff\\xfe\\x00bin\\n' + '中文'.encode('gb18030') + b'\\nlast'); "
        "raise SystemExit(2)"
    )
    node.runtime.handle(start("job", "n1", code))
    exited = node.wait(TaskExited)[0]
    assert exited.tail[-1] == "last"
    assert os.fsencode("bin") in exited.tail[0].encode()
