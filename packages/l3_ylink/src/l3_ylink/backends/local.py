"""Jobs as supervised processes on this machine.

All tasks of a job live and die together: one that fails ends the others, and if the supervisor
itself is killed the kernel ends them all.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

from l3_ylink._kit.problems import BadInput, Unavailable
from l3_ylink.ports import JobOutcome, JobRequest

TIED = Path(__file__).with_name("tied.py")
GRACE_S = 5.0
"""Between SIGTERM and SIGKILL."""
GONE_S = 2.0
"""How long SIGKILL is given to take effect."""
POLL_S = 0.05
LAST_WORDS = 2000
"""Characters of a failed task's log that are looked at for its error."""


class LocalRunner:
    """Starts each job as `count` processes with torchrun's variables, logs in `logs`."""

    def __init__(self, logs: Path, *, attempt: int = 1) -> None:
        self.logs, self.attempt = logs, attempt

    def run(self, request: JobRequest) -> LocalJob:
        """Starts the job and returns at once."""
        if not request.command:
            raise BadInput("has no word", field="command")
        self.logs.mkdir(parents=True, exist_ok=True)
        return LocalJob(request, self.logs, self.attempt)

    def find(self, job: str) -> None:  # noqa: ARG002 (the port's)
        """None: the processes of a job die with the process that started it."""
        return


class LocalJob:
    """A running job.  Its own thread starts and watches the processes.

    (The kernel ties a child to the *thread* that made it, so the thread must live as long.)
    """

    def __init__(self, request: JobRequest, logs: Path, attempt: int) -> None:
        self.id = f"local-{uuid.uuid4().hex[:8]}"
        self._request, self._logs, self._attempt = request, logs, attempt
        self._outcome: JobOutcome | None = None
        self._problem: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name=self.id, daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float | None = None) -> JobOutcome | None:
        """The outcome, or None when it still runs after `timeout_s`."""
        self._thread.join(timeout_s)
        if self._problem is not None:
            raise self._problem
        return self._outcome

    def cancel(self) -> None:
        """Ends all tasks and waits for that."""
        self._stop.set()
        self._thread.join()

    def _supervise(self) -> None:
        tasks: list[subprocess.Popen[bytes]] = []
        try:
            port = free_port()
            tasks.extend(self._start(rank, port) for rank in range(self._request.count))
            failed = self._watch(tasks)
            self._outcome = self._judge(tasks, failed)
        except OSError as error:
            self._problem = Unavailable(f"cannot start {self._request.command[0]}: {error}")
        finally:
            end_all(tasks)

    def _start(self, rank: int, port: int) -> subprocess.Popen[bytes]:
        program, *arguments = self._request.command
        command = [sys.executable if program == "python" else program, *arguments]
        tied = [sys.executable, "-I", "-S", str(TIED), str(os.getpid())]
        with open(self._log(rank), "ab") as log:
            return subprocess.Popen(
                [*tied, *command],
                env=self._environment(rank, port),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _environment(self, rank: int, port: int) -> dict[str, str]:
        count = str(self._request.count)
        given = {
            "RANK": str(rank),
            "WORLD_SIZE": count,
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": count,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": "lo",
            "OGAI_JOB": self.id,
            "OGAI_ATTEMPT": str(self._attempt),
        }
        if self._request.checkpoint is not None:
            given["OGAI_CHECKPOINT_DIR"] = self._request.checkpoint.path
        return {**os.environ, **self._request.environment, **given}

    def _log(self, rank: int) -> Path:
        return self._logs / f"attempt-{self._attempt}.rank-{rank}.log"

    def _watch(self, tasks: list[subprocess.Popen[bytes]]) -> int | None:
        """Returns the first rank that failed; None when all ended well or the job was cancelled."""
        while not self._stop.is_set():
            codes = [exit_code(task) for task in tasks]
            failed = [rank for rank, code in enumerate(codes) if code]
            if failed:
                return self._first_cause(tasks, failed[0])
            if None not in codes:
                return None
            time.sleep(POLL_S)
        return None

    def _first_cause(self, tasks: list[subprocess.Popen[bytes]], seen: int) -> int:
        """Peers of a lost rank fail within milliseconds: bad input or a signal came first."""
        time.sleep(2 * POLL_S)
        codes = {rank: exit_code(task) for rank, task in enumerate(tasks)}
        first = [rank for rank, code in codes.items() if code == BadInput.exit_code or (code or 0) < 0]
        return first[0] if first else seen

    def _judge(self, tasks: list[subprocess.Popen[bytes]], failed: int | None) -> JobOutcome:
        if self._stop.is_set():
            return JobOutcome("cancelled", exit_code=1, why="cancelled")
        if failed is None:
            return JobOutcome("completed")
        code = exit_code(tasks[failed]) or 0
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        words = last_words(self._log(failed))
        return JobOutcome(
            "failed", exit_code=code, why=f"rank {failed} {how}" + (f": {words}" if words else "")
        )


def exit_code(task: subprocess.Popen[bytes]) -> int | None:
    """A task's exit code (negative: the signal), None while it runs.

    The task is left as a zombie, so that its process group's number stays ours until `end_all`.
    """
    ended = os.waitid(os.P_PID, task.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def end_all(tasks: list[subprocess.Popen[bytes]]) -> None:
    """Ends every task and what it started: SIGTERM, a grace period, SIGKILL."""
    signal_all(tasks, signal.SIGTERM)
    until = time.monotonic() + GRACE_S
    while time.monotonic() < until and any(exit_code(task) is None for task in tasks):
        time.sleep(POLL_S)
    signal_all(tasks, signal.SIGKILL)
    for task in tasks:
        task.wait()
    until = time.monotonic() + GONE_S
    while time.monotonic() < until and any(has_members(task.pid) for task in tasks):
        time.sleep(POLL_S)


def has_members(group: int) -> bool:
    """Whether a process group still has a process (what a task started ends a moment after the task)."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def signal_all(tasks: list[subprocess.Popen[bytes]], number: signal.Signals) -> None:
    """Sends a signal to each task's process group, those of ended tasks as well."""
    for task in tasks:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(task.pid, number)


def last_words(log: Path) -> str:
    """The error message at the end of a log: from `error:` on, else its last line."""
    text = log.read_bytes()[-LAST_WORDS:].decode("utf-8", "replace")
    at = text.rfind("error: ")
    if at >= 0 and (at == 0 or text[at - 1] == "\n"):
        return text[at + len("error: ") :].strip()
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def free_port() -> int:
    """A port that was free a moment ago on the loopback address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
