"""The errors that need something running: a BMC, a platform, a training run, a model server."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from integration_tests.processes import end, free_port, start, wait_for
from integration_tests.test_clear_errors import RECIPE, environment, run

STEPS, EVERY = 400, 5


def refused(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """One clear error: what and, where someone can do something about it, what."""
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr.count("error:") == 1, done.stderr
    assert "\n  try: " in done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def succeeded(*words: str, home: Path) -> str:
    done = run(*words, home=home)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def served(module: str, home: Path) -> Iterator[str]:
    """`serve` of a layer on a free port."""
    port, log = free_port(), home / "serve.log"
    child = start([sys.executable, "-m", module, "serve", "--port", str(port)], environment(home), log)
    try:
        wait_for(f"http://127.0.0.1:{port}/healthz", log=log)
        yield f"http://127.0.0.1:{port}"
    finally:
        end(child)


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[str]:
    """The address of a machine's BMC that speaks Redfish."""
    succeeded("l0_infra_os", "lab", "up", "--kind", "process", "--machines", "1", home=tmp_path)
    try:
        (machine,) = json.loads(succeeded("l0_infra_os", "lab", "status", "--json", home=tmp_path))
        yield str(machine["bmc"])
    finally:
        succeeded("l0_infra_os", "lab", "down", home=tmp_path)


def enroll(home: Path, address: str, password: Path) -> subprocess.CompletedProcess[str]:
    words = ["enroll", address, "--username", "admin", "--password-file", str(password)]
    return run("l0_infra_os", *words, home=home)


def test_a_wrong_bmc_password(bmc: str, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("wrong\n")
    refused(enroll(tmp_path, bmc, tmp_path / "wrong"), 2, bmc, "password")
    assert json.loads(succeeded("l0_infra_os", "nodes", "--json", home=tmp_path)) == []


def image_file(folder: Path) -> str:
    path = folder / "debian.tar.zst"
    path.write_bytes(bytes.fromhex("28b52ffd2405290000") + b"image" + bytes(4))
    return str(path)


def test_an_image_that_is_not_what_was_promised(tmp_path: Path) -> None:
    promised = "sha256:" + "a" * 64
    words = ["image", "add", "debian", image_file(tmp_path), "--format", "tar.zst"]
    refused(run("l0_infra_os", *words, "--digest", promised, home=tmp_path), 2, promised)
    assert json.loads(succeeded("l0_infra_os", "image", "list", "--json", home=tmp_path)) == []


def test_an_image_that_was_changed_later_is_put_on_no_node(bmc: str, tmp_path: Path) -> None:
    assert enroll(tmp_path, bmc, tmp_path / "l0" / "lab" / "password").returncode == 0
    succeeded("l0_infra_os", "inspect", home=tmp_path)
    succeeded("l0_infra_os", "tenant", "add", "red", home=tmp_path)
    (lease,) = json.loads(succeeded("l0_infra_os", "lease", "red", "--nodes", "1", "--json", home=tmp_path))
    image = image_file(tmp_path)
    succeeded("l0_infra_os", "image", "add", "debian", image, "--format", "tar.zst", home=tmp_path)
    (blob,) = (tmp_path / "l0" / "images" / "blobs").iterdir()
    blob.chmod(0o600)
    blob.write_bytes(b"something else")
    (tmp_path / "key.pub").write_text(f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'A' * 43} me\n")
    words = ["provision", lease["id"], "--image", "debian", "--ssh-key", str(tmp_path / "key.pub")]
    refused(run("l0_infra_os", *words, home=tmp_path), 1, "damaged", "sha256:")
    (node,) = json.loads(succeeded("l0_infra_os", "nodes", "--json", home=tmp_path))
    assert (node["state"], node["power"]) == ("leased", "off")


def test_a_gang_larger_than_the_pool_and_a_wrong_token(tmp_path: Path) -> None:
    job = {"name": "big", "tasks": [{"count": 4, "one_per_node": True, "command": ["true"]}]}
    (tmp_path / "job.json").write_text(json.dumps(job))
    (tmp_path / "ogai.toml").write_text('[l2]\ntoken = "ogai-nobodys"\n')
    with served("l2_aistation", tmp_path) as url:
        refused(run("l2_aistation", "jobs", "--url", url, home=tmp_path), 2, "token")
        (tmp_path / "ogai.toml").unlink()
        words = ["submit", str(tmp_path / "job.json"), "--url", url]
        refused(run("l2_aistation", *words, home=tmp_path), 2, "4 nodes", "the pool has 1")
        listed = succeeded("l2_aistation", "jobs", "--json", "--url", url, home=tmp_path)
        assert json.loads(listed) == []


def test_a_wrong_api_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-ogai-nobodys\n")
    with served("l4_mmodel", tmp_path) as url:
        words = ["chat", "model", "--key-file", str(tmp_path / "key"), "--message", "Hello"]
        refused(run("l4_mmodel", *words, "--url", f"{url}/v1", home=tmp_path), 1, "API key")


@pytest.mark.real
@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="needs deepspeed")
def test_a_damaged_checkpoint(tmp_path: Path) -> None:
    data, out, plan = tmp_path / "data", tmp_path / "run", tmp_path / "plan.json"
    words = ["data", "run", str(RECIPE), "--input", str(RECIPE.parent / "data")]
    succeeded("l3_ylink", *words, "--out", str(data), home=tmp_path)
    words = ["plan", "pretrain", "--model", "tiny", "--world-size", "2", "--steps", str(STEPS)]
    succeeded("l3_ylink", *words, "--out", str(plan), home=tmp_path)
    train = ["train", "pretrain", "--plan", str(plan), "--data", str(data), "--out", str(out)]
    train += ["--runner", "local", "--checkpoint-every", str(EVERY)]
    kill_when(sys.executable, "-m", "l3_ylink", *train, home=tmp_path, there=out / "checkpoints" / "latest")
    for part in (out / "checkpoints").rglob("*.pt"):
        part.write_bytes(part.read_bytes()[:-100])
    refused(run("l3_ylink", *train, home=tmp_path), 2, "every checkpoint", "damaged")
    assert not (out / "model").exists()


def kill_when(*command: str, home: Path, there: Path) -> None:
    """Starts a command and kills it with -9 as soon as a file is there."""
    log = home / "killed.log"
    child = start([*command], environment(home), log)
    limit = time.monotonic() + 120
    while not there.exists():
        assert child.poll() is None, log.read_text()
        assert time.monotonic() < limit
        time.sleep(0.1)
    child.send_signal(signal.SIGKILL)
    child.wait()
