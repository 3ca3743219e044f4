"""Sessions as jobs with a real JupyterLab and a real sshd: kernels and terminals say whether they idle."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from l2_aistation.documents import JobSpec
from l2_aistation.launchers import Place, resolve, session_of
from l2_aistation.launchers.session.activity import IdleClock
from l2_aistation.supervisor import processes

pytestmark = pytest.mark.real

SSHD = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
AFTER_S = 6.0


def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


@contextlib.contextmanager
def session(shared: Path, **options: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """The session's program as the supervisor starts it, and what its owner is told."""
    group = {"preset": {"name": "notebook", "options": options}}
    spec = JobSpec.parse(
        {
            "producer": {"name": "test", "version": "1"},
            "name": "note",
            "tasks": [group],
            "idle": {"after_s": AFTER_S},
        }
    )
    place = Place(0, 1, 0, 1, 0, 1, "127.0.0.1", port(), "note-1", 1, idle=spec.idle)
    launch = resolve(spec.tasks[0], place)
    variables = {
        "OGAI_SHARED_DIR": str(shared),
        "OGAI_JOB": "note-1",
        "OGAI_ATTEMPT": "1",
        "MASTER_ADDR": place.master,
        "MASTER_PORT": str(place.port),
        "HOME": str(shared),
        "JUPYTER_RUNTIME_DIR": str(shared / "runtime"),
    }
    program = subprocess.Popen(
        [sys.executable, *launch.command[1:]],
        env={**os.environ, **launch.environment, **variables},
        cwd=shared,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        until = time.monotonic() + 60
        while (found := session_of(shared, "note-1", 1)) is None:
            assert program.poll() is None, program.stdout.read() if program.stdout else ""
            assert time.monotonic() < until
            time.sleep(0.1)
        yield program, found
    finally:
        left = processes.descendants(program.pid)
        program.kill()
        program.communicate()
        processes.kill_all(left)


@pytest.mark.skipif(importlib.util.find_spec("jupyterlab") is None, reason="needs the extra notebook")
def test_a_busy_kernel_is_kept_without_a_browser_and_an_idle_session_given_back(tmp_path: Path) -> None:
    """jupyterhub#1498: a cell computes and nobody looks.  Then it ends, and the session with it."""
    with session(tmp_path) as (program, told):
        path = tmp_path / ".aistation/note-1/1/session.json"
        assert path.stat().st_mode & 0o777 == 0o600
        words = Path(f"/proc/{program.pid}/cmdline").read_bytes() + b"".join(
            Path(f"/proc/{pid}/cmdline").read_bytes() for pid in processes.descendants(program.pid)
        )
        assert told["token"].encode() not in words
        url = told["url"].removesuffix("/lab")
        assert httpx.get(f"{url}/api/kernels").status_code == 403  # nobody without the token
        compute(tmp_path, url, told["token"], "import time; time.sleep(12)")
        began = time.monotonic()
        output, _ = program.communicate(timeout=90)
        lasted = time.monotonic() - began
    assert program.returncode == 0
    assert "given back: idle for" in output
    assert lasted > 12 + AFTER_S * 0.6  # busy to the end of the cell, and idle only from then on
    assert session_of(tmp_path, "note-1", 1) is None


def compute(folder: Path, url: str, token: str, code: str) -> None:
    """Starts a kernel over REST and a cell in it over its connection file; then nobody is connected."""
    headers = {"Authorization": f"token {token}"}
    httpx.post(f"{url}/api/kernels", headers=headers, json={}, timeout=30).raise_for_status()
    script = (
        "import sys, glob, time\n"
        "from jupyter_client import BlockingKernelClient\n"
        "paths = []\n"
        "while not paths:\n"
        "    paths = glob.glob(sys.argv[1] + '/runtime/kernel-*.json'); time.sleep(0.1)\n"
        "kernel = BlockingKernelClient(); kernel.load_connection_file(paths[0]); kernel.start_channels()\n"
        "kernel.wait_for_ready(timeout=30); kernel.execute(sys.argv[2]); time.sleep(0.5)\n"
        "kernel.stop_channels()\n"
    )
    subprocess.run([sys.executable, "-c", script, str(folder), code], check=True, timeout=60)


@pytest.mark.skipif(
    not (shutil.which("sshd", path=SSHD) and shutil.which("ssh")), reason="needs sshd and ssh (openssh)"
)
def test_a_program_over_ssh_keeps_the_session_and_an_idle_one_is_given_back(tmp_path: Path) -> None:
    """kubeflow#6920: there is no kernel; what runs in the session decides."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    public = key.with_suffix(".pub").read_text().strip()
    with session(tmp_path, kind="ssh", public_key=public) as (program, told):
        known = tmp_path / "known"
        known.write_text(f"[{told['host']}]:{told['port']} {' '.join(told['host_key'].split()[:2])}\n")
        login = ["ssh", "-i", str(key), "-p", str(told["port"]), "-o", f"UserKnownHostsFile={known}"]
        login += ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", f"{told['user']}@{told['host']}"]
        busy = "end=$(($(date +%s)+12)); while [ $(date +%s) -lt $end ]; do :; done; echo done"
        done = subprocess.run([*login, busy], capture_output=True, text=True, timeout=60, check=False)
        assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
        assert program.poll() is None
        output, _ = program.communicate(timeout=60)
    assert program.returncode == 0
    assert "given back: idle for" in output


def test_a_session_that_cannot_be_had_says_why(tmp_path: Path) -> None:
    variables = {
        "OGAI_SHARED_DIR": str(tmp_path),
        "OGAI_JOB": "note-1",
        "OGAI_ATTEMPT": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port()),
        "OGAI_SESSION_KIND": "ssh",
        "OGAI_SESSION_PUBLIC_KEY": "ssh-ed25519 AAAA",
        "PATH": str(tmp_path),
    }
    code = (
        "import shutil; shutil.which = lambda *a, **k: None\n"
        "import sys, runpy; runpy.run_module('l2_aistation.launchers.session', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 127
    assert "install openssh-server" in done.stderr
    assert "Traceback" not in done.stderr


def test_idle_is_counted_from_the_last_use() -> None:
    clock = IdleClock(100.0)
    assert clock.observe(110.0, active=True) == 0
    assert clock.observe(130.0, active=False, last=125.0) == 5
    assert clock.observe(140.0, active=False, last=120.0) == 15
    assert clock.observe(150.0, active=False, last=1e9) == 0  # a clock ahead of ours is now


def test_the_end_of_a_job_ends_its_session(tmp_path: Path) -> None:
    if importlib.util.find_spec("jupyterlab") is None:
        pytest.skip("needs the extra notebook")
    with session(tmp_path) as (program, _told):
        program.send_signal(signal.SIGTERM)
        program.communicate(timeout=30)
        assert program.returncode == 143
        assert session_of(tmp_path, "note-1", 1) is None


def test_what_a_session_tells_survives_a_broken_file(tmp_path: Path) -> None:
    path = tmp_path / ".aistation/j/1/session.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    assert session_of(tmp_path, "j", 1) is None
    path.write_text(json.dumps({"kind": "ssh"}))
    assert session_of(tmp_path, "j", 1) == {"kind": "ssh"}
