"""Arrays, pipelines and examples over REST with the real local engine: all or none, in their order."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

Make = Callable[..., dict[str, Any]]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def problem(answer: Any) -> tuple[int, str, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    return answer.status_code, body.get("field", ""), body["title"]


def bulk(site: Any, *specs: Any, who: dict[str, str] | None = None) -> Any:
    return site.client.post("/api/v1/jobs:bulk", json={"jobs": list(specs)}, headers=who or site.operator)


def test_an_array_is_one_submission_and_each_member_knows_its_number(site: Any, make_spec: Make) -> None:
    spec = make_spec("import os; print('number', os.environ['OGAI_ARRAY_INDEX'])", name="sweep")
    spec["array"] = {"count": 5, "most_running": 2}
    answer = site.client.post("/api/v1/jobs", json=spec, headers=site.operator).json()
    assert answer["jobs"] == [f"{answer['id']}-{index}" for index in range(5)]
    running = []
    for job in answer["jobs"]:
        while site.client.get(f"/api/v1/jobs/{job}", headers=site.operator).json()["state"] != "completed":
            states = [row["state"] for row in site.client.get("/api/v1/jobs", headers=site.operator).json()]
            running.append(sum(state in ("starting", "running") for state in states))
            time.sleep(0.02)
    assert max(running) <= 2
    end = time.monotonic() + 10
    for index, job in enumerate(answer["jobs"]):
        path = f"/api/v1/jobs/{job}/logs"
        while f"number {index}\n" not in site.client.get(path, headers=site.operator).text:
            assert time.monotonic() < end
            time.sleep(0.05)


def test_an_array_is_cancelled_by_its_id(site: Any, make_spec: Make) -> None:
    spec = make_spec("import time; time.sleep(60)", name="sweep")
    spec["array"] = {"count": 4, "most_running": 1}
    answer = site.client.post("/api/v1/jobs", json=spec, headers=site.red).json()
    site.until(answer["jobs"][0], "running")
    path = f"/api/v1/jobs/{answer['id']}"
    assert problem(site.client.post(f"{path}/cancel", headers=site.blue))[0] == 404
    assert problem(site.client.post(f"{path}/release", headers=site.red))[0] == 409
    cancelled = site.client.post(f"{path}/cancel", headers=site.red).json()
    assert sorted(cancelled["jobs"]) == answer["jobs"]
    for job in answer["jobs"]:
        site.until(job, "cancelled")


def test_a_pipeline_runs_in_its_order(site: Any) -> None:
    specs = list(yaml.safe_load_all((EXAMPLES / "pipeline.yaml").read_text("utf-8")))
    jobs = [row["id"] for row in bulk(site, *specs).json()["jobs"]]
    views = [site.until(job, "completed", "failed") for job in jobs]
    assert [view["state"] for view in views] == ["completed"] * 3
    assert views[0]["ended_at"] <= views[1]["started_at"] <= views[1]["ended_at"] <= views[2]["started_at"]
    assert views[1]["spec"]["depends_on"] == [{"job": jobs[0], "condition": "completed"}]
    shared = site.service.settings.shared
    assert (shared / "sum.txt").read_text() == "6"


def test_a_job_whose_condition_cannot_come_true_says_so(site: Any, make_spec: Make) -> None:
    first = site.submit(make_spec("raise SystemExit(3)"))
    site.until(first, "failed")
    second = site.submit({**make_spec(), "depends_on": [{"job": first}]})
    why = site.client.get(f"/api/v1/jobs/{second}/explain", headers=site.operator).json()
    assert (why["limit"], why["forever"]) == ("dependency", True)
    assert why["words"] == f"waits for job {first} to have completed, which ended as failed"


BAD_GROUPS: list[tuple[list[dict[str, Any]], str, str]] = [
    ([{"name": "a"}, {"name": "b", "colour": 1}], "jobs.1.colour", "Extra inputs"),
    (
        [{"name": "a", "depends_on": [{"job": "b"}]}, {"name": "b", "depends_on": [{"job": "a"}]}],
        "jobs.0.depends_on",
        "wait for each other",
    ),
    ([{"name": "a", "depends_on": [{"job": "a"}]}], "jobs.0.depends_on", "wait for each other"),
    ([{"name": "a"}, {"name": "b", "depends_on": [{"job": "nobody"}]}], "jobs.1.depends_on.0.job", "no job"),
    ([{"name": "a"}, {"name": "b", "queue": "gold"}], "jobs.1.queue", "there is no queue"),
    ([{"name": "a"}, {"name": "b", "reservation": "x"}], "jobs.1.reservation", "there is no reservation"),
    ([{"name": "a"}, {"name": "b", "array": {"count": 0}}], "jobs.1.array.count", "greater than or equal"),
    ([{"name": "a"}, {"name": "b", "array": {"count": 10**6}}], "jobs.1.array.count", "at most"),
]


@pytest.mark.parametrize(("changes", "field", "words"), BAD_GROUPS, ids=lambda value: str(value)[:40])
def test_one_bad_spec_of_several_and_none_is_taken(
    site: Any, make_spec: Make, changes: list[dict[str, Any]], field: str, words: str
) -> None:
    status, at, title = problem(bulk(site, *({**make_spec(), **change} for change in changes)))
    assert (status, words in title) == (422, True), title
    assert at.startswith(field)
    assert site.client.get("/api/v1/jobs", headers=site.operator).json() == []


def test_the_same_key_is_the_same_jobs(site: Any, make_spec: Make) -> None:
    key = {"Idempotency-Key": "once"}
    specs: list[dict[str, Any]] = [make_spec(name="a"), {**make_spec(name="b"), "array": {"count": 3}}]
    first = [row["id"] for row in bulk(site, *specs, who={**site.operator, **key}).json()["jobs"]]
    again = [row["id"] for row in bulk(site, *specs, who={**site.operator, **key}).json()["jobs"]]
    assert first == again
    assert len(site.client.get("/api/v1/jobs", headers=site.operator).json()) == 4


def test_a_dependency_on_another_tenant_s_job_is_one_on_no_job(site: Any, make_spec: Make) -> None:
    theirs = site.submit(make_spec(), site.red)
    for name in (theirs, "nobody"):
        spec = {**make_spec(), "depends_on": [{"job": name}]}
        answer = site.client.post("/api/v1/jobs", json=spec, headers=site.blue)
        assert problem(answer)[:2] == (422, "depends_on.0.job")
        assert answer.json()["title"] == f"no job {name!r}"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_are_taken(site: Any, path: Path) -> None:
    specs = list(yaml.safe_load_all(path.read_text("utf-8")))
    answer = bulk(site, *specs)
    assert answer.status_code == 201, answer.text
    jobs = [job for row in answer.json()["jobs"] for job in row.get("jobs", [row["id"]])]
    if path.stem == "notebook":
        site.client.post(f"/api/v1/jobs/{jobs[0]}/cancel", headers=site.operator)
        site.until(jobs[0], "cancelled", "failed")
        return
    for job in jobs:
        view = site.until(job, "completed", "failed")
        assert view["state"] == "completed", view


def test_a_body_of_fifty_megabytes_is_refused_before_it_is_read(site: Any) -> None:
    read = 0

    def body() -> Any:
        nonlocal read
        for _ in range(50):
            read += 1
            yield b" " * 1_000_000

    answer = site.client.post("/api/v1/jobs", content=body(), headers=site.operator)
    assert problem(answer)[0] == 413
    said = {**site.operator, "Content-Length": "50000000"}
    answer = site.client.post("/api/v1/jobs", content=b"x", headers=said)
    assert problem(answer)[0] == 413
    assert site.client.get("/api/v1/jobs", headers=site.operator).json() == []


def test_an_array_is_shown_and_watched_by_its_id(site: Any, make_spec: Make) -> None:
    """Its jobs' events in order until all are over; others see neither."""
    spec = {**make_spec(name="many"), "array": {"count": 3}}
    answer = site.client.post("/api/v1/jobs", json=spec, headers=site.red).json()
    array = answer["id"]
    assert site.client.get(f"/api/v1/jobs/{array}", headers=site.blue).status_code == 404
    assert site.client.get(f"/api/v1/jobs/{array}/watch", headers=site.blue).status_code == 404
    text = site.client.get(f"/api/v1/jobs/{array}/watch", headers=site.red).text  # until all are over
    events = [part.splitlines() for part in text.strip().split("\n\n") if not part.startswith(":")]
    heard = [(lines[1].removeprefix("event: "), json.loads(lines[2][6:])) for lines in events]
    ends = [data["job"] for kind, data in heard if kind == "state" and data["to"] == "completed"]
    assert sorted(ends) == answer["jobs"]
    assert heard[-1][0] == "end"
    positions = [int(lines[0][4:].partition(".")[0]) for lines in events]
    assert positions == sorted(positions)
    view = site.client.get(f"/api/v1/jobs/{array}", headers=site.red).json()
    assert (view["id"], view["state"], view["states"]) == (array, "completed", {"completed": 3})
    assert [(item["id"], item["array_index"]) for item in view["jobs"]] == [
        (f"{array}-{number}", number) for number in range(3)
    ]


def test_a_token_that_was_taken_back_submits_nothing(site: Any, make_spec: Make) -> None:
    tokens = site.client.app.state.shell.tokens
    leaver = {"Authorization": f"Bearer {tokens.create('leaver', 'red')}"}
    assert site.client.post("/api/v1/jobs", json=make_spec(), headers=leaver).status_code == 201
    tokens.revoke("leaver")
    assert site.client.post("/api/v1/jobs", json=make_spec(), headers=leaver).status_code == 401
