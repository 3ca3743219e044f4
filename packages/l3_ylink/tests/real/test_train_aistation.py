"""Jobs through a real aistation: submitted, healed, recorded; found again after an interruption."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from l3_ylink._kit.documents import Reference
from l3_ylink._kit.problems import BadInput, Unauthorized, Unavailable
from l3_ylink.ports import CheckpointRequest, JobRequest
from l3_ylink.trainkit.program import RESULT
from l3_ylink.trainkit.runs import open_run, read_run
from l3_ylink.trainkit.service import Paths, carry_out

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
api = pytest.importorskip("l2_aistation.api", reason="needs l2-aistation: pip install 'l3-ylink[aistation]'")

from l3_ylink.adapters.l2_aistation import AistationRunner, job_spec  # noqa: E402

DIGEST = "sha256:" + "1" * 64
REQUEST = JobRequest(
    name="test",
    command=("python", "-c", "pass"),
    count=2,
    environment={"MINE": "1"},
    checkpoint=CheckpointRequest("run/checkpoints", 10),
    cpu_cores=0.1,
    inputs=(Reference(schema_="ogai.parallel-plan/v1", digest=DIGEST),),
    data=(DIGEST,),
)


class Platform:
    """A served aistation with a home and a shared folder of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        self.url, self.shared = f"http://127.0.0.1:{port}", folder / "shared"
        self.shared.mkdir()
        environment = {
            **os.environ,
            "OGAI_HOME": str(folder / "home"),
            "OGAI_L2_PORT": str(port),
            "OGAI_L2_SHARED_DIR": str(self.shared),
        }
        with open(folder / "serve.log", "w", encoding="utf-8") as log:
            command = [sys.executable, "-m", "l2_aistation", "serve"]
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        until = time.monotonic() + 90
        while not self.answers():
            assert time.monotonic() < until, (folder / "serve.log").read_text("utf-8")
            time.sleep(0.1)
        self.token = (folder / "home" / "admin.token").read_text("utf-8").strip()

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz").status_code == 200
        except httpx.TransportError:
            return False

    def jobs(self, name: str) -> list[str]:
        with api.Aistation(self.url, self.token) as client:
            return [row["id"] for row in client.jobs() if row["name"] == name]

    def runner(self) -> AistationRunner:
        return AistationRunner(self.url, self.token)


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    served = Platform(tmp_path_factory.mktemp("platform"))
    yield served
    served.process.send_signal(signal.SIGTERM)
    served.process.wait(timeout=30)


def python(code: str, **more: object) -> JobRequest:
    return replace(REQUEST, command=("python", "-c", code), **more)  # type: ignore[arg-type]


def test_the_spec_says_what_the_request_says() -> None:
    spec = job_spec(REQUEST).as_json()
    (task,) = spec["tasks"]
    assert (task["count"], task["environment"], task["resources"]["cpu_cores"]) == (2, {"MINE": "1"}, 0.1)
    assert spec["inputs"] == [{"schema": "ogai.parallel-plan/v1", "digest": DIGEST}]
    assert spec["data"] == [DIGEST]
    assert spec["checkpoint"] == {"path": "run/checkpoints", "every_steps": 10, "keep": 2}


def test_a_job_runs_in_the_shared_folder_and_its_record_is_named(platform: Platform) -> None:
    code = (
        "import json, os, pathlib\n"
        "from l3_ylink.trainkit.environment import Rank, checkpoint_folder, in_shared\n"
        "rank = Rank.of(os.environ)\n"
        "out = in_shared('one'); out.mkdir(exist_ok=True)\n"
        "from l3_ylink.trainkit.program import reporter_of_platform\n"
        "told = reporter_of_platform()\n"
        "told.step(1, loss=2.5, samples=4)\n"
        "(out / str(rank.rank)).write_text(f'{rank.world_size} {checkpoint_folder(out)}')"
    )
    runner = platform.runner()
    job = runner.run(python(code))
    outcome = job.wait(120)
    assert outcome is not None
    assert outcome.completed, outcome.why
    for rank in (0, 1):
        world, checkpoints = (platform.shared / "one" / str(rank)).read_text("utf-8").split()
        assert world == "2"
        assert checkpoints == str(platform.shared / "run" / "checkpoints")
    record = runner.record(job.id)
    assert outcome.record_digest == record.digest()
    assert [(step.step, step.loss) for step in record.steps][:1] == [(1, 2.5)]


def test_a_user_error_counts_as_bad_input_and_is_not_tried_again(platform: Platform) -> None:
    runner = platform.runner()
    job = runner.run(python("import no_such_module"))
    outcome = job.wait(120)
    assert outcome is not None
    assert (outcome.state, outcome.exit_code) == ("failed", 2)
    assert "no_such_module" in outcome.why
    assert len(runner.record(job.id).attempts) == 1


def test_an_interrupted_run_waits_for_the_job_that_it_left(platform: Platform) -> None:
    out = platform.shared / "left"
    code = (
        "import json, pathlib, time\n"
        "from l3_ylink.trainkit.environment import in_shared\n"
        "time.sleep(3)\n"
        f"(in_shared('left') / {RESULT!r}).write_text('{{}}')"
    )
    runner = platform.runner()
    run = open_run(out, "pretrain", {})
    job = runner.run(python(code, count=1, key=f"{run.id}-1", name="left"))
    replace(run, job=job.id, supervisor="1:1").write()  # as a killed command leaves it
    again = open_run(out, "pretrain", {})
    assert (again.state, again.job) == ("running", job.id)
    _run, outcome = carry_out(again, python(code, count=1, name="left"), lambda _n: platform.runner(), None)
    assert outcome.completed
    assert (out / RESULT).exists()
    assert platform.jobs("left") == [job.id]


def test_the_same_key_never_makes_a_second_job(platform: Platform) -> None:
    request = python("pass", key="run-1234-1", name="once")
    first, second = (platform.runner().run(request) for _ in range(2))
    assert first.id == second.id


def test_giving_up_cancels_the_job(platform: Platform) -> None:
    def stop(_row: object) -> None:
        raise KeyboardInterrupt

    out = platform.shared / "enough"
    code = (
        "import time\n"
        "from l3_ylink.trainkit.environment import in_shared\n"
        "from l3_ylink.trainkit.program import StepLog\n"
        "StepLog(in_shared('enough'), 1, None).step(1, loss=1.0, seconds=1.0, samples=1)\n"
        "time.sleep(100)"
    )
    run = open_run(out, "pretrain", {})
    with pytest.raises(KeyboardInterrupt):
        carry_out(run, python(code, count=1, name="enough"), lambda _n: platform.runner(), stop)
    assert read_run(out).state == "cancelled"
    job = read_run(out).job
    with api.Aistation(platform.url, platform.token) as client:
        assert client.wait(job, 60)["state"] == "cancelled"
    assert platform.runner().find(job) is None


def test_the_platforms_problems_are_ours(platform: Platform) -> None:
    with pytest.raises(Unauthorized):
        AistationRunner(platform.url, "ogai-wrong").run(REQUEST)
    with pytest.raises(BadInput, match="gang"):
        platform.runner().run(replace(REQUEST, count=10_000))
    with pytest.raises(Unavailable):
        AistationRunner("http://127.0.0.1:9", "ogai-x").run(REQUEST)
    assert platform.runner().find("no-such-job") is None


def test_paths_outside_the_shared_folder_are_refused(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "shared")
    assert paths(tmp_path / "shared" / "a" / "b") == "a/b"
    with pytest.raises(BadInput, match="outside the shared folder"):
        paths(tmp_path / "elsewhere")
    assert json.loads(json.dumps(Paths(None)(tmp_path))) == str(tmp_path)
