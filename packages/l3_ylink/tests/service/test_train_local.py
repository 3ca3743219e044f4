"""Jobs as processes of this machine: together they start, together they end, none is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from l3_ylink._kit.problems import BadInput, Unavailable
from l3_ylink.backends.local import LocalRunner, last_words
from l3_ylink.ports import CheckpointRequest, JobOutcome, JobRequest

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "GLOO_SOCKET_IFNAME")


def python(code: str, count: int = 1, **more: object) -> JobRequest:
    return JobRequest(name="test", command=("python", "-c", code), count=count, **more)  # type: ignore[arg-type]


def run(request: JobRequest, logs: Path, attempt: int = 1) -> JobOutcome:
    outcome = LocalRunner(logs, attempt=attempt).run(request).wait(60)
    assert outcome is not None
    return outcome


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(path: Path) -> str:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if path.exists() and path.read_text("utf-8"):
            return path.read_text("utf-8")
        time.sleep(0.02)
    raise AssertionError(f"{path} never came")


def test_every_task_gets_torchruns_variables(tmp_path: Path) -> None:
    code = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1] + os.environ['RANK'], 'w'))"
    request = JobRequest(
        name="test",
        command=("python", "-c", code, str(tmp_path / "rank-")),
        count=3,
        environment={"MINE": "1"},
        checkpoint=CheckpointRequest("here/checkpoints", 10),
    )
    assert run(request, tmp_path / "logs", attempt=4).completed
    seen = [json.loads((tmp_path / f"rank-{rank}").read_text("utf-8")) for rank in range(3)]
    assert [task["RANK"] for task in seen] == ["0", "1", "2"]
    assert {task["WORLD_SIZE"] for task in seen} == {"3"}
    assert len({task["MASTER_PORT"] for task in seen}) == 1
    assert all(set(VARIABLES) <= set(task) for task in seen)
    assert seen[0]["MINE"] == "1"
    assert seen[0]["OGAI_ATTEMPT"] == "4"
    assert seen[0]["OGAI_CHECKPOINT_DIR"] == "here/checkpoints"


def test_one_that_fails_ends_the_others_and_its_words_are_told(tmp_path: Path) -> None:
    code = (
        "import os, sys, time\n"
        "if os.environ['RANK'] == '1': sys.exit('error: the shard is damaged')\n"
        "time.sleep(60)"
    )
    began = time.monotonic()
    outcome = run(python(code, count=3), tmp_path)
    assert time.monotonic() - began < 30
    assert (outcome.state, outcome.exit_code) == ("failed", 1)
    assert outcome.why == "rank 1 ended with exit code 1: the shard is damaged"


def test_bad_input_counts_as_the_first_cause(tmp_path: Path) -> None:
    """Peers notice a rank's end at once and fail too; the one with exit code 2 knows why."""
    code = "import os, sys; sys.exit(2 if os.environ['RANK'] == '1' else 1)"
    assert run(python(code, count=2), tmp_path).exit_code == 2


def test_a_killed_task_is_told_by_its_signal(tmp_path: Path) -> None:
    outcome = run(python("import os, signal; print('so far', flush=True); os.kill(os.getpid(), 9)"), tmp_path)
    assert (outcome.state, outcome.exit_code) == ("failed", -9)
    assert outcome.why == "rank 0 was killed by SIGKILL: so far"


def test_cancel_ends_everything_even_what_a_task_started(tmp_path: Path) -> None:
    code = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(tmp_path / 'pids')!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(60)"
    )
    job = LocalRunner(tmp_path / "logs").run(python(code))
    pids = [int(pid) for pid in wait_for(tmp_path / "pids").split()]
    assert job.wait(0.01) is None
    job.cancel()
    outcome = job.wait(1)
    assert outcome is not None
    assert outcome.state == "cancelled"
    assert not any(alive(pid) for pid in pids)


def test_kill_9_of_the_supervisor_leaves_no_task(tmp_path: Path) -> None:
    supervisor = (
        "import sys; from pathlib import Path\n"
        "from l3_ylink.backends.local import LocalRunner\n"
        "from l3_ylink.ports import JobRequest\n"
        "code = 'import os, sys, time; name = sys.argv[1] + os.environ[\"RANK\"];'\n"
        "code += 'open(name, \"w\").write(str(os.getpid())); time.sleep(60)'\n"
        "request = JobRequest('test', ('python', '-c', code, sys.argv[1] + '/pid-'), count=2)\n"
        "LocalRunner(Path(sys.argv[1]) / 'logs').run(request).wait()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", supervisor, str(tmp_path)])
    pids = [int(wait_for(tmp_path / f"pid-{rank}")) for rank in range(2)]
    assert all(alive(pid) for pid in pids)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    until = time.monotonic() + 10
    while any(alive(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in pids)


def test_logs_of_attempts_lie_apart(tmp_path: Path) -> None:
    for attempt in (1, 2):
        run(python(f"print('attempt', {attempt})"), tmp_path, attempt=attempt)
    assert (tmp_path / "attempt-1.rank-0.log").read_text("utf-8") == "attempt 1\n"
    assert (tmp_path / "attempt-2.rank-0.log").read_text("utf-8") == "attempt 2\n"


def test_a_program_that_is_not_there_is_said(tmp_path: Path) -> None:
    outcome = run(JobRequest("test", ("no-such-program",)), tmp_path)
    assert outcome.state == "failed"
    assert "no-such-program" in outcome.why


def test_no_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        LocalRunner(tmp_path).run(JobRequest("test", ()))


def test_logs_that_cannot_be_written_are_said(tmp_path: Path) -> None:
    (tmp_path / "attempt-1.rank-0.log").mkdir()
    job = LocalRunner(tmp_path).run(python("pass"))
    with pytest.raises(Unavailable, match="cannot start"):
        job.wait(20)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", ""),
        ("step 1\nstep 2\n", "step 2"),
        ("step 1\nerror: no room\n  why: full\n", "no room\n  why: full"),
        ("ValueError: an error: inside\nlast\n", "last"),
    ],
)
def test_last_words(tmp_path: Path, log: str, words: str) -> None:
    (tmp_path / "log").write_text(log, "utf-8")
    assert last_words(tmp_path / "log") == words
