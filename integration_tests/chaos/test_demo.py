"""The demo, run to its end after one that was killed: nothing is left, and the chain holds."""

from __future__ import annotations

import json

import pytest
from l4_mmodel._kit.documents import digest_of

from integration_tests.conftest import FinishedDemo

pytestmark = pytest.mark.real


def test_a_finished_demo_leaves_nothing_running(finished_demo: FinishedDemo) -> None:
    assert finished_demo.left == []
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
