"""`aistation serve` as users run it: commands, kill -9 at any moment, a clean end."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from l2_aistation._kit.problems import Unavailable
from l2_aistation.client import Aistation
from l2_aistation.settings import Settings

pytestmark = pytest.mark.real
SOAK = os.environ.get("OGAI_SOAK") == "1"


class Server:
    """A served platform that can be killed and started again on the same state."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self.environment = {
            **os.environ,
            "OGAI_HOME": str(home),
            "OGAI_L2_PORT": str(self.port),
            "OGAI_L2_HEARTBEAT_S": "0.3",
            "COLUMNS": "200",
            **environment,
        }
        self.process: subprocess.Popen[str] | None = None
        self.log = home / "serve.log"

    def start(self) -> None:
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "l2_aistation", "serve"],
                env=self.environment,
                stdout=log,
                stderr=log,
                text=True,
            )
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                if httpx.get(f"http://127.0.0.1:{self.port}/healthz").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        raise AssertionError(self.log.read_text())

    def signal(self, number: int) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(timeout=30)

    def cli(self, *words: str, code: int = 0, text: str | None = None) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "l2_aistation", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            input=text,
            timeout=120,
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done.stdout if code == 0 else done.stderr

    def client(self) -> Aistation:
        return Aistation(settings=Settings(home=self.home, port=self.port))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    one = Server(tmp_path)
    one.start()
    yield one
    if one.process is not None and one.process.poll() is None:
        with one.client() as client:
            for job in client.jobs(limit=1000):
                if job["state"] in ("starting", "running", "held", "resuming"):
                    client.cancel(job["id"])
                    client.wait(job["id"], 30)
        one.signal(signal.SIGTERM)


def one_task(code: str, name: str = "job", cores: float = 0.1) -> dict[str, Any]:
    return {
        "name": name,
        "tasks": [{"command": [sys.executable, "-c", code], "resources": {"cpu_cores": cores}}],
    }


def test_the_commands_from_submission_to_record(server: Server, tmp_path: Path) -> None:
    spec = tmp_path / "job.yaml"
    spec.write_text(json.dumps(one_task("print('你好')", "hello")))
    job = server.cli("submit", str(spec)).strip()
    assert job.startswith("hello-")
    watched = [json.loads(line) for line in server.cli("watch", job, "--json").splitlines()]
    assert [event["to"] for event in watched if event["event"] == "state"][-1] == "completed"
    assert json.loads(server.cli("jobs", "--json"))[0]["state"] == "completed"
    assert "completed" in server.cli("job", job)
    assert "the job is completed" in server.cli("explain", job)
    end = time.monotonic() + 10
    while "你好" not in server.cli("logs", job):
        assert time.monotonic() < end
    path = tmp_path / "job-record.json"
    server.cli("record", job, "--out", str(path))
    assert json.loads(path.read_text("utf-8"))["state"] == "completed"
    nodes = json.loads(server.cli("pool", "show", "--json"))["nodes"]
    assert [node["id"] for node in nodes] == ["local"]
    assert "default" in server.cli("queue", "list")


def test_bad_input_has_one_clear_error_and_its_exit_code(server: Server, tmp_path: Path) -> None:
    assert "no such file" in server.cli("submit", "/nowhere.yaml", code=2).lower()
    assert "neither YAML nor JSON" in server.cli("submit", "-", code=2, text="{")
    assert "is no mapping" in server.cli("submit", "-", code=2, text="[1]")
    unknown = {**one_task("pass"), "colour": "red"}
    assert "colour" in server.cli("submit", "-", code=2, text=json.dumps(unknown))
    large = one_task("pass", cores=10_000)
    error = json.loads(server.cli("submit", "-", "--json", code=2, text=json.dumps(large)))
    assert "the largest node has" in error["title"]
    assert "no job 'nobody'" in server.cli("job", "nobody", code=2)
    assert "there is no document" in server.cli("schema", "poem", code=2)
    (tmp_path / "r.json").write_text("{}")
    assert "ogai.cluster-report/v1" in server.cli("pool", "import", str(tmp_path / "r.json"), code=2)
    failing = server.cli("submit", "-", "--wait", code=1, text=json.dumps(one_task("raise SystemExit(3)")))
    assert "failed" in failing
    server.signal(signal.SIGTERM)
    assert "start it with `aistation serve`" in server.cli("jobs", code=3)


def test_a_second_service_on_the_same_state_is_refused(server: Server) -> None:
    other = {**server.environment, "OGAI_L2_PORT": str(server.port + 1)}
    done = subprocess.run(
        [sys.executable, "-m", "l2_aistation", "serve"], env=other, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "another aistation serves from this state folder" in done.stderr
    assert "Traceback" not in done.stderr
    home = {**server.environment, "OGAI_HOME": str(server.home / "other")}
    done = subprocess.run(
        [sys.executable, "-m", "l2_aistation", "serve"], env=home, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 3
    assert f"cannot listen on 127.0.0.1:{server.port}" in done.stderr


def test_kill_9_in_the_middle_of_submissions_loses_and_doubles_nothing(server: Server) -> None:
    kill_in_the_middle_of_submissions(server)


def test_kill_9_in_the_middle_of_submissions_on_postgresql(database: Any, tmp_path: Path) -> None:
    server = Server(tmp_path, OGAI_L2_DATABASE_URL=database.url)
    server.start()
    try:
        kill_in_the_middle_of_submissions(server)
        answer = json.loads(server.cli("replay", "--json"))
        assert (answer["same"], answer["differences"]) == (True, [])
    finally:
        server.signal(signal.SIGTERM)


def kill_in_the_middle_of_submissions(server: Server) -> None:
    """Every job is there once, an array whole or not at all, and what ran before runs on."""
    count, kills = (200, 5) if SOAK else (40, 2)
    with server.client() as client:
        cores = client.pool()["nodes"][0]["cpu_cores"]
        blocker = client.submit(one_task("import time; time.sleep(600)", "blocker", cores))["id"]
        until = time.monotonic() + 60  # only then do the others queue behind it
        while client.job(blocker)["state"] != "running":
            assert time.monotonic() < until
            time.sleep(0.05)
    ids: dict[int, str] = {}

    def submit_all() -> None:
        with server.client() as client:
            for number in range(count):
                while number not in ids:
                    try:
                        spec = one_task("pass", f"n{number}", 1)
                        ids[number] = client.submit(spec, key=f"key-{number}")["id"]
                    except Unavailable:
                        time.sleep(0.05)

    thread = threading.Thread(target=submit_all)
    thread.start()
    for kill in range(1, kills + 1):
        while len(ids) < kill * count // (kills + 1):
            time.sleep(0.005)
        server.signal(signal.SIGKILL)
        server.start()
    thread.join(timeout=120)
    with server.client() as client:
        names = sorted(job["id"] for job in client.jobs(limit=1000))
        assert names == sorted([blocker, *ids.values()])
        view = client.job(blocker)
        assert (view["state"], view["attempt"]) == ("running", 1)
        for job in [blocker, *ids.values()]:
            client.cancel(job)
        client.wait(blocker, 30)


def test_a_task_lives_through_the_platform_s_end(server: Server, tmp_path: Path) -> None:
    flag = tmp_path / "go"
    code = f"import os, time\nwhile not os.path.exists({str(flag)!r}): time.sleep(0.05)\nprint('went on')"
    with server.client() as client:
        job = client.submit(one_task(code))["id"]
        while client.job(job)["state"] != "running":
            time.sleep(0.1)
    began = time.monotonic()
    server.signal(signal.SIGTERM)
    assert time.monotonic() - began < 10
    flag.touch()
    time.sleep(0.5)
    server.start()
    with server.client() as client:
        view = client.wait(job, 30)
        assert (view["state"], view["attempt"]) == ("completed", 1)


def test_the_gap_between_two_jobs_is_short(server: Server) -> None:
    """A place that becomes free is given at once, not at some next round (the whole machine, job by job)."""
    with server.client() as client:
        cores = client.pool()["nodes"][0]["cpu_cores"]
        jobs = [client.submit(one_task("pass", f"n{number}", cores))["id"] for number in range(6)]
        views = [client.wait(job, 60) for job in jobs]
        events: dict[str, dict[str, float]] = {job: {} for job in jobs}
        for job in jobs:
            for entry in client.log(job):
                if entry["kind"] in ("placed", "state"):
                    events[job][entry["body"].get("to", "placed")] = parse(entry["at"])
    assert {view["state"] for view in views} == {"completed"}
    gaps = [events[later]["placed"] - events[job]["completed"] for job, later in itertools.pairwise(jobs)]
    assert all(0 <= gap < 0.1 for gap in gaps), gaps


def parse(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
