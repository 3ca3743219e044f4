"""What every engine must do, as a pytest class: sub-class it and give it your engine.

    class TestMyEngine(EngineConformance):
        @pytest.fixture
        def lab(self, tmp_path):
            yield EngineLab(open_engine=…, nodes=("n1", "n2"), shared=tmp_path / "shared")

Needs pytest.  The ranks are real processes of this machine or of the engine's nodes; the tests read
their process table, so the nodes must share it with the test (containers and hosts of a lab do not).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from .core.events import (
    AttendTasks,
    EndTasks,
    Event,
    NodeSeen,
    StartTasks,
    StepReported,
    TaskExited,
    TaskLaunch,
    TasksEnded,
    TaskStalled,
    TaskStarted,
)
from .ports import Engine

E = TypeVar("E")

PATIENCE_S = 40.0


class Recorder:
    """An event sink that remembers heartbeats and the events of jobs whose name begins with `job`.

    `fail` makes it refuse, as a store that does not answer.
    """

    def __init__(self, job: str = "") -> None:
        self.job = job
        self.events: list[Event] = []
        self.fail = False
        self._changed = threading.Condition()

    def __call__(self, events: Sequence[Event]) -> None:
        with self._changed:
            if self.fail:
                raise ConnectionError("the store does not answer")
            self.events += [
                event for event in events if isinstance(event, NodeSeen) or event.job.startswith(self.job)
            ]
            self._changed.notify_all()

    def of(self, kind: type[E], **members: Any) -> list[E]:
        """The events of one kind with these members, in the order in which they came."""
        return [
            event
            for event in self.events
            if isinstance(event, kind)
            and all(getattr(event, name) == value for name, value in members.items())
        ]

    def wait(self, kind: type[E], count: int = 1, within_s: float = PATIENCE_S, **members: Any) -> list[E]:
        """Waits for `count` events; an assertion names what came instead."""
        until = time.monotonic() + within_s
        with self._changed:
            while len(found := self.of(kind, **members)) < count:
                left = until - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    others = [event for event in self.events if not isinstance(event, NodeSeen)]
                    raise AssertionError(
                        f"no {count} {kind.__name__} {members} in {within_s} s, but {others}"
                    )
            return found


@dataclass
class EngineLab:
    """How a test opens the engine again and again over the same state, and which nodes it may use."""

    open_engine: Callable[[], Engine]
    nodes: tuple[str, str]
    shared: Path


def start(
    job: str, node: str, code: str, *, attempt: int = 1, ranks: Sequence[int] = (0,), **environment: str
) -> StartTasks:
    """A command that starts one-line Python programs."""
    tasks = tuple(
        TaskLaunch(rank, index, "worker", ("python", "-c", code), {"RANK": str(rank), **environment})
        for index, rank in enumerate(ranks)
    )
    return StartTasks(job, attempt, node, "tenant", len(ranks), tasks)


SLEEP = "import time; print('here', flush=True); time.sleep(600)"


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


class EngineConformance:
    """The tests.  The fixture `lab` is the sub-class's."""

    @pytest.fixture
    def job(self) -> str:
        """A job name of this test's own."""
        return f"kit-{secrets.token_hex(4)}"

    @pytest.fixture
    def sink(self, job: str) -> Recorder:
        """Where the events go."""
        return Recorder(job)

    @pytest.fixture
    def engine(self, lab: EngineLab, sink: Recorder) -> Iterator[Engine]:
        """An open engine; what a test leaves running is ended."""
        engine = lab.open_engine()
        engine.open(sink)
        yield engine
        with contextlib.suppress(AssertionError):
            for job, attempt, node in {(e.job, e.attempt, e.node) for e in sink.of(TaskStarted)}:
                engine.send(EndTasks(job, attempt, node, 0.0))
                sink.wait(TasksEnded, job=job, attempt=attempt, node=node)
        engine.close()

    def test_a_rank_runs_reports_and_completes(
        self, engine: Engine, sink: Recorder, lab: EngineLab, job: str
    ) -> None:
        """Environment, steps, the end and the log."""
        code = (
            "import os; from l2_aistation.progress import step; "
            "print('rank', os.environ['RANK'], os.getcwd() == os.environ['OGAI_SHARED_DIR']); "
            "step(7, loss=2.5, samples=8)"
        )
        engine.send(start(job, lab.nodes[0], code))
        started = sink.wait(TaskStarted, rank=0)[0]
        exited = sink.wait(TaskExited, rank=0)[0]
        assert (started.node, exited.code, exited.signal, exited.lost) == (lab.nodes[0], 0, None, False)
        step = sink.wait(StepReported)[0]
        assert (step.rank, step.step, step.loss, step.samples) == (0, 7, 2.5, 8)
        engine.send(EndTasks(job, 1, lab.nodes[0]))
        sink.wait(TasksEnded)
        assert (lab.shared / f".aistation/{job}/1/rank-0.log").read_text() == "rank 0 True\n"

    def test_a_gang_has_its_environment_and_peers_in_common(
        self, engine: Engine, sink: Recorder, lab: EngineLab, job: str
    ) -> None:
        """A rank's own variables go over the gang's; the peers come as variable and as hostfile."""
        code = (
            "import os; print(os.environ['ONE'], os.environ['TWO'], os.environ['OGAI_PEERS']); "
            "print(open(os.environ['OGAI_HOSTFILE']).read(), end='')"
        )
        command = replace(
            start(job, lab.nodes[0], code, TWO="rank"),
            environment={"ONE": "gang", "TWO": "gang"},
            peers=(("10.0.0.1", 1), ("10.0.0.2", 8)),
            world_size=1,
        )
        engine.send(command)
        assert sink.wait(TaskExited)[0].tail == (
            "gang rank 10.0.0.1:1,10.0.0.2:8",
            "10.0.0.1 slots=1",
            "10.0.0.2 slots=8",
        )

    def test_heartbeats_name_living_attempts(
        self, engine: Engine, sink: Recorder, lab: EngineLab, job: str
    ) -> None:
        """NodeSeen comes again and again and tells who runs there."""
        engine.send(start(job, lab.nodes[0], SLEEP))
        sink.wait(TaskStarted)
        until = time.monotonic() + PATIENCE_S
        while sum((job, 1) in seen.attempts for seen in sink.of(NodeSeen, node=lab.nodes[0])) < 2:
            assert time.monotonic() < until
            time.sleep(0.1)

    def test_a_start_sent_twice_starts_once(
        self, engine: Engine, sink: Recorder, lab: EngineLab, job: str
    ) -> None:
        """The second one only repeats what is known."""
        command = start(job, lab.nodes[0], SLEEP)
        engine.send(command)
        sink.wait(TaskStarted)
        engine.send(command)
        assert len({event.pid for event in sink.wait(TaskStarted, 2)}) == 1

    def test_an_exit_code_comes_with_the_last_lines(
        self, engine: Engine, sink: Recorder, lab: EngineLab, job: str
    ) -> None:
        """The words that a diagnosis needs."""
        engine.send(start(job, lab.nodes[0], "print('步 3'); raise ValueError('bad batch')"))
        exited = sink.wait(TaskExited)[0]
        assert exited.code == 1
        assert exited.tail[0] == "步 3"
        assert exited.tail[-1] == "ValueError: bad batch"

    def test_a_signal_is_told_as_one(self, engine: Engine, sink: Recorder, lab: EngineLab, job: str) -> None:
        """kill -9 from outside, seen within a second."""
        engine.send(start(job, lab.nodes[0], SLEEP))
        pid = sink.wait(TaskStarted)[0].pid
        os.kill(pid, signal.SIGKILL)
        exited = sink.wait(TaskExited, within_s=5)[0]
        assert (exited.code, exited.signal) == (None, signal.SIGKILL)

    def test_a_program_that_is_not_there(
        self, engine: Engine, sink: Recorder, lab: EngineLab, job: str
    ) -> None:
        """Like a shell: 127, and the reason in words."""
        task = TaskLaunch(0, 0, "worker", ("/no/such/program",), {})
        engine.send(StartTasks(job, 1, lab.nodes[0], "tenant", 1, (task,)))
        exited = sink.wait(TaskExited)[0]
        assert exited.code == 127
        assert "/no/such/program" in exited.tail[-1]

    def test_ending_leaves_no_process(self, engine: Engine, sink: Recorder, lab: EngineLab, job: str) -> None:
        """A rank that ignores SIGTERM, a stopped one, and a daemon that left its session are gone."""
        code = (
            "import os, signal, subprocess, sys, time; "
            "signal.signal(signal.SIGTERM, signal.SIG_IGN); "
            "daemon = 'import os, time; os.setsid(); time.sleep(600)'; "
            "child = subprocess.Popen([sys.executable, '-c', daemon]); "
            "print(child.pid, flush=True); time.sleep(600)"
        )
        engine.send(start(job, lab.nodes[0], code, ranks=(0, 1)))
        pids = [event.pid for event in sink.wait(TaskStarted, 2)]
        logs = [lab.shared / f".aistation/{job}/1/rank-{rank}.log" for rank in (0, 1)]
        until = time.monotonic() + PATIENCE_S
        while not all(log.exists() and log.read_text().strip() for log in logs) and time.monotonic() < until:
            time.sleep(0.1)
        pids += [int(log.read_text()) for log in logs]
        os.kill(pids[1], signal.SIGSTOP)
        engine.send(EndTasks(job, 1, lab.nodes[0], grace_s=0.5))
        sink.wait(TasksEnded)
        assert [pid for pid in pids if alive(pid)] == []
        assert sink.of(TaskExited) == []

    def test_a_stopped_rank_is_a_hang(self, engine: Engine, sink: Recorder, lab: EngineLab, job: str) -> None:
        """SIGSTOP is seen without any step being reported."""
        engine.send(start(job, lab.nodes[0], SLEEP))
        os.kill(sink.wait(TaskStarted)[0].pid, signal.SIGSTOP)
        stalled = sink.wait(TaskStalled, within_s=10)[0]
        assert stalled.kind == "hang"
        assert "stopped" in stalled.evidence[0]

    def test_an_end_before_its_start_wins(
        self, engine: Engine, sink: Recorder, lab: EngineLab, job: str
    ) -> None:
        """Commands may overtake each other."""
        engine.send(EndTasks(job, 1, lab.nodes[0]))
        sink.wait(TasksEnded)
        engine.send(start(job, lab.nodes[0], SLEEP))
        engine.send(start(f"{job}-2", lab.nodes[0], SLEEP))
        sink.wait(TaskStarted, job=f"{job}-2")
        assert sink.of(TaskStarted, job=job) == []

    def test_a_later_attempt_replaces_and_outranks(
        self, engine: Engine, sink: Recorder, lab: EngineLab, job: str
    ) -> None:
        """Attempt 2 ends what is left of attempt 1; attempt 1 cannot come back."""
        engine.send(start(job, lab.nodes[0], SLEEP))
        first = sink.wait(TaskStarted, attempt=1)[0].pid
        engine.send(start(job, lab.nodes[0], SLEEP, attempt=2))
        second = sink.wait(TaskStarted, attempt=2)[0].pid
        assert (alive(first), alive(second)) == (False, True)
        engine.send(start(job, lab.nodes[0], SLEEP, attempt=1))
        engine.send(start(f"{job}-2", lab.nodes[1], SLEEP))
        sink.wait(TaskStarted, job=f"{job}-2")
        assert len(sink.of(TaskStarted, job=job, attempt=1)) == 1

    def test_attending_repeats_what_is_known(
        self, engine: Engine, sink: Recorder, lab: EngineLab, job: str
    ) -> None:
        """And an unknown attempt is lost."""
        engine.send(start(job, lab.nodes[0], SLEEP))
        pid = sink.wait(TaskStarted)[0].pid
        engine.send(AttendTasks(job, 1, lab.nodes[0], (0,)))
        assert [event.pid for event in sink.wait(TaskStarted, 2)] == [pid, pid]
        engine.send(AttendTasks(f"{job}-3", 1, lab.nodes[0], (3,)))
        assert sink.wait(TaskExited, job=f"{job}-3")[0].lost

    def test_ranks_outlive_the_engine(self, lab: EngineLab, job: str) -> None:
        """Closed and opened again: the ranks ran on, and what they did meanwhile is delivered."""
        before, after = Recorder(job), Recorder(job)
        engine = lab.open_engine()
        engine.open(before)
        engine.send(start(job, lab.nodes[0], "import time; time.sleep(2)"))
        pid = before.wait(TaskStarted)[0].pid
        engine.close()
        assert alive(pid)
        engine = lab.open_engine()
        engine.open(after)
        assert after.wait(TaskExited)[0].code == 0
        engine.send(EndTasks(job, 1, lab.nodes[0]))
        after.wait(TasksEnded)
        engine.close()

    def test_what_the_store_refused_comes_again(
        self, engine: Engine, sink: Recorder, lab: EngineLab, job: str
    ) -> None:
        """At least once, in order."""
        sink.wait(NodeSeen)
        sink.fail = True
        engine.send(start(job, lab.nodes[0], "raise SystemExit(3)"))
        time.sleep(1.5)
        sink.fail = False
        assert sink.wait(TaskExited)[0].code == 3
        kinds = [type(event).__name__ for event in sink.events if isinstance(event, TaskStarted | TaskExited)]
        assert kinds.index("TaskStarted") < kinds.index("TaskExited")

    def test_secrets_stay_with_the_platform(
        self, engine: Engine, sink: Recorder, lab: EngineLab, job: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A rank's environment has nothing of the platform's settings."""
        code = "import os; print([n for n in os.environ if n.startswith('OGAI_L') or 'PASSWORD' in n])"
        monkeypatch.setenv("OGAI_L2_BROKER_URL", "redis://:secret@127.0.0.1:1/0")
        monkeypatch.setenv("DATABASE_PASSWORD", "secret")
        engine.send(start(job, lab.nodes[0], code))
        assert sink.wait(TaskExited)[0].tail == ("[]",)
