"""The demo, killed in the middle and then run to its end: nothing is left, and the chain holds."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from l4_mmodel._kit.documents import digest_of

from integration_tests.conftest import FinishedDemo, demo_command

pytestmark = pytest.mark.real


def processes_naming(folder: Path) -> list[str]:
    """Processes that carry the folder in their command line or environment."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            text = (place / "cmdline").read_bytes() + (place / "environ").read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in text and int(place.name) != os.getpid():
            found.append(f"{place.name} {(place / 'cmdline').read_bytes()[:120]!r}")
    return found


def mounts_below(folder: Path) -> list[str]:
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"{folder}/" in line]


def namespaces() -> set[str]:
    folder = Path("/run/netns")
    return {path.name for path in folder.glob("ogai-*")} if folder.is_dir() else set()


def nothing_is_left(folder: Path, before: set[str], patience_s: float = 20) -> None:
    """Waits until no process, mount or namespace of a demo is there any more."""
    limit = time.monotonic() + patience_s
    left: list[str] = []
    while time.monotonic() < limit:
        left = [*processes_naming(folder), *mounts_below(folder), *sorted(namespaces() - before)]
        if not left:
            return
        time.sleep(0.5)
    raise AssertionError(left)


def test_a_killed_demo_leaves_nothing_running(tmp_path: Path) -> None:
    before = namespaces()
    chance = random.Random(int(os.environ.get("OGAI_SEED") or 0))
    with open(tmp_path / "log", "wb") as log:
        child = subprocess.Popen(demo_command(tmp_path), stdout=log, stderr=log, start_new_session=True)
    time.sleep(chance.uniform(5, 45))
    assert child.poll() is None, (tmp_path / "log").read_text()[-2000:]
    child.send_signal(signal.SIGKILL)
    child.wait()
    nothing_is_left(tmp_path, before)


def test_a_finished_demo_leaves_nothing_running(finished_demo: FinishedDemo) -> None:
    nothing_is_left(finished_demo.folder, set(), patience_s=5)
    assert finished_demo.output.splitlines()[-1] == str(finished_demo.report)


def test_every_document_is_in_the_chain(finished_demo: FinishedDemo) -> None:
    values = [json.loads(path.read_text()) for path in (finished_demo.folder / "documents").glob("*.json")]
    digests = {digest_of(value) for value in values}
    schemas = {value["schema"] for value in values}
    assert {
        "ogai.dataset-manifest/v1",
        "ogai.parallel-plan/v1",
        "ogai.job-spec/v1",
        "ogai.job-record/v1",
    } <= schemas
    assert {"ogai.model-manifest/v1", "ogai.eval-report/v1", "ogai.deployment/v1"} <= schemas
    for value in values:
        missing = [item for item in value["inputs"] if item["digest"] not in digests]
        assert not missing, f"{value['schema']} was made from documents that are not there: {missing}"
    report = finished_demo.report.read_text()
    assert report.count(">holds<") == len(values)
    assert ">broken<" not in report


def test_the_lost_node_was_named_and_replaced_by_the_spare(finished_demo: FinishedDemo) -> None:
    if finished_demo.machines == "process":
        pytest.skip("without root there is no node to power off")
    documents = finished_demo.folder / "documents"
    record = json.loads((documents / "job-record.json").read_text())
    inventory = json.loads((documents / "node-inventory.json").read_text())
    spares = {node["id"] for node in inventory["nodes"] if node["role"] == "spare"}
    first, *_, last = record["attempts"]
    ((lost, stand_in),) = last["replaced"].items()
    assert (first["cause"], record["faults"][0]["label"], record["faults"][0]["node"]) == (
        "node_lost",
        "node_lost",
        lost,
    )
    assert stand_in in spares
    ranks = {place["rank"]: place["node"] for place in first["placement"]}
    assert {place["rank"]: place["node"] for place in last["placement"]} == {
        rank: stand_in if node == lost else node for rank, node in ranks.items()
    }
    losses = {step["step"]: step["loss"] for step in record["steps"]}
    assert sorted(losses) == list(range(1, max(losses) + 1))
    assert losses[max(losses)] < losses[1] - 1


def test_the_fine_tuned_model_is_better_and_served(finished_demo: FinishedDemo) -> None:
    documents = finished_demo.folder / "documents"
    base = json.loads((documents / "eval-report-base.json").read_text())
    tuned = json.loads((documents / "eval-report-triage.json").read_text())
    (comparison,) = [row for row in tuned["comparisons"] if row["baseline"]["digest"] == digest_of(base)]
    assert comparison["difference"] > 0
    assert comparison["p_value"] < 0.05
    deployment = json.loads((documents / "deployment.json").read_text())
    assert deployment["model"]["digest"] == tuned["model"]["digest"]


def test_no_secret_reached_a_log(finished_demo: FinishedDemo) -> None:
    home = finished_demo.folder / "home"
    secrets = [(home / "admin.token").read_text().strip()]
    broker = finished_demo.folder / "ssh" / "broker.url"
    if broker.exists():
        secrets.append(broker.read_text().partition("://")[2].partition("@")[0].rpartition(":")[2])
    texts = [finished_demo.output, finished_demo.report.read_text()]
    texts += [path.read_text(errors="replace") for path in finished_demo.folder.rglob("*.log")]
    assert secrets
    for secret in secrets:
        assert len(secret) > 8
        assert not any(secret in text for text in texts)
