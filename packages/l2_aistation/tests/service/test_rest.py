"""The REST interface over the real local engine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

Make = Callable[..., dict[str, Any]]

TRAIN = """
from l2_aistation.api import progress
for step in range(1, 6):
    progress.step(step, loss=1 / step)
progress.checkpoint(5)
print("done with", step)
"""


def problem(answer: Any) -> tuple[int, str, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == answer.status_code
    return answer.status_code, body.get("field", ""), body["title"]


def test_a_job_from_submission_to_record(site: Any, make_spec: Make) -> None:
    job = site.submit(make_spec(TRAIN, count=2, name="train"))
    view = site.until(job, "completed", "failed")
    assert view["state"] == "completed", view
    assert [place["rank"] for place in view["attempts"][0]["placement"]] == [0, 1]
    record = site.client.get(f"/api/v1/jobs/{job}/record", headers=site.operator).json()
    assert record["schema"] == "ogai.job-record/v1"
    assert record["spec"]["digest"] == view["spec_digest"]
    assert [(row["step"], row["loss"]) for row in record["steps"]] == [
        (step, pytest.approx(1 / step)) for step in range(1, 6)
    ]
    assert (record["attempts"][0]["first_step"], record["attempts"][0]["last_step"]) == (1, 5)
    assert record["attempts"][0]["cause"] == "completed"
    end = time.monotonic() + 10  # logs are copied to the shared folder behind the ranks' back
    while "done with 5" not in site.client.get(f"/api/v1/jobs/{job}/logs?rank=1", headers=site.operator).text:
        assert time.monotonic() < end
        time.sleep(0.1)


DIES_ONCE = """
import os, time
from l2_aistation.api import progress
first = int(os.environ["OGAI_ATTEMPT"]) == 1
for step in range(4):
    time.sleep(0.05)
    progress.step(step, loss=1.0)
if first:
    os.kill(os.getpid(), 9)
"""


def test_what_became_of_the_time_of_a_job_that_healed(site: Any, make_spec: Make) -> None:
    job = site.submit(make_spec(DIES_ONCE))
    assert site.until(job, "completed", "failed")["state"] == "completed"
    figures = site.client.get(f"/api/v1/jobs/{job}/reliability", headers=site.operator).json()
    assert figures["causes"] == [
        {"label": "process_killed", "faults": 1, "lost_s": pytest.approx(figures["mttr_s"])}
    ]
    assert 0 < figures["ettr"] <= figures["goodput"] < 1
    assert sum(figures["phases_s"].values()) == pytest.approx(figures["wall_s"], abs=0.01)
    assert figures["phases_s"]["again"] > 0  # it had no checkpoint: its first steps were done twice
    text = site.client.get("/metrics").text
    assert 'aistation_faults_total{category="host",label="process_killed"} 1.0' in text
    page = site.client.get(f"/jobs/{job}", headers={**site.operator, "Accept": "text/html"}).text
    assert "MTTR" in page
    assert "process_killed" in page


def test_a_user_error_ends_the_job_at_once_and_says_so(site: Any, make_spec: Make) -> None:
    job = site.submit(make_spec("raise ValueError('no such layer')"))
    view = site.until(job, "completed", "failed")
    assert (view["state"], view["cause"], len(view["attempts"])) == ("failed", "user_code_error", 1)
    fault = view["faults"][0]
    assert fault["label"] == "user_code_error"
    assert any("no such layer" in line for line in fault["evidence"])


def test_events_come_in_order_and_a_client_comes_back_to_where_it_was(site: Any, make_spec: Make) -> None:
    job = site.submit(make_spec(TRAIN))
    site.until(job, "completed")

    def events(last: str = "") -> list[tuple[str, str, dict[str, Any]]]:
        headers = {**site.operator, **({"Last-Event-ID": last} if last else {})}
        text = site.client.get(f"/api/v1/jobs/{job}/watch", headers=headers).text
        frames = [
            dict(line.split(": ", 1) for line in frame.split("\n")) for frame in text.strip().split("\n\n")
        ]
        return [(frame["id"], frame["event"], json.loads(frame["data"])) for frame in frames]

    everything = events()
    kinds = [kind for _, kind, _ in everything]
    assert kinds[0] == "submitted"
    assert kinds[-1] == "end"
    assert [data["to"] for _, kind, data in everything if kind == "state"] == [
        "starting",
        "running",
        "completed",
    ]
    assert [data["step"] for _, kind, data in everything if kind == "step"] == [1, 2, 3, 4, 5]
    for number in range(len(everything) - 1):
        rest = events(everything[number][0])
        assert [entry[1:] for entry in rest] == [entry[1:] for entry in everything[number + 1 :]]


def test_two_tenants_never_see_each_other(site: Any, make_spec: Make) -> None:
    job = site.submit(make_spec("import time; time.sleep(60)", resources={"accelerators": 8}), site.red)
    site.until(job, "running", who=site.red)
    waiting = site.submit(make_spec(resources={"accelerators": 1}), site.blue)
    paths = ["", "/explain", "/record", "/reliability", "/steps", "/log", "/logs", "/watch"]
    for path in paths:
        theirs = site.client.get(f"/api/v1/jobs/{job}{path}", headers=site.blue)
        nobody = site.client.get(f"/api/v1/jobs/nobody{path}", headers=site.blue)
        assert problem(theirs)[0] == problem(nobody)[0] == 404
        assert theirs.text.replace(job, "nobody") == nobody.text
    for verb in ("cancel", "suspend", "release", "requeue"):
        assert problem(site.client.post(f"/api/v1/jobs/{job}/{verb}", headers=site.blue))[0] == 404
    assert [row["id"] for row in site.client.get("/api/v1/jobs", headers=site.blue).json()] == [waiting]
    pool = site.client.get("/api/v1/pool", headers=site.blue).text
    assert job not in pool
    assert "another tenant" in pool
    why = site.client.get(f"/api/v1/jobs/{waiting}/explain", headers=site.blue)
    assert why.json()["words"] == "needs 1 accelerators, free are 0"
    assert job not in why.text
    assert "red" not in why.text
    queue = site.client.get("/api/v1/queues", headers=site.blue).json()[0]
    assert (queue["waiting"], queue["active"]) == (1, 0)
    faults = site.client.get("/api/v1/faults", headers=site.blue).json()
    assert faults == []
    for page in (f"/jobs/{job}", f"/fragments/jobs/{job}"):
        assert site.client.get(page, headers={**site.blue, "Accept": "text/html"}).status_code == 404
    assert job not in site.client.get("/jobs", headers={**site.blue, "Accept": "text/html"}).text
    mine = site.client.get(f"/api/v1/jobs/{waiting}/explain", headers=site.operator).json()
    assert mine["holders"][0]["job"] == job
    site.client.post(f"/api/v1/jobs/{job}/cancel", headers=site.red)
    site.until(job, "cancelled")
    site.until(waiting, "completed", "running")


def test_what_only_an_operator_may_do(site: Any) -> None:
    calls: list[tuple[str, str, dict[str, Any] | None]] = [
        ("POST", "/api/v1/pool", {}),
        ("POST", "/api/v1/nodes/local/cordon", {}),
        ("POST", "/api/v1/nodes/local/uncordon", {}),
        ("PUT", "/api/v1/queues/gold", {}),
        ("GET", "/api/v1/log", None),
    ]
    for method, path, body in calls:
        answer = site.client.request(method, path, json=body, headers=site.red)
        assert problem(answer)[0] == 403, path
        assert problem(site.client.request(method, path, json=body))[0] == 401, path


def test_a_state_that_is_none_is_refused(site: Any) -> None:
    answer = site.client.get("/api/v1/jobs", params={"state": "zzz"}, headers=site.red)
    assert problem(answer)[0] == 422
    assert "'queued'" in answer.json()["title"]


BAD_SPECS: list[tuple[dict[str, Any], str, str]] = [
    ({"colour": "red"}, "colour", "Extra inputs are not permitted"),
    ({"tasks": []}, "tasks", "at least 1 item"),
    ({"tasks": [{"count": 0, "command": ["x"]}]}, "tasks.0.count", "greater than or equal to 1"),
    ({"tasks": [{"count": -3, "command": ["x"]}]}, "tasks.0.count", "greater than or equal to 1"),
    ({"tasks": [{"count": 1, "command": []}]}, "tasks.0.command", "at least 1 item"),
    ({"name": "Not A Name"}, "name", "pattern"),
    ({"queue": "gold"}, "queue", "there is no queue 'gold'"),
    ({"topology": {"required": "planet"}}, "topology.required", "'planet' is no level"),
    ({"gang": {"min": 4, "max": 2}}, "gang", "max 2 is below min 4"),
    ({"gang": {"min": 2, "max": 4}}, "gang", "count 1 is not within 2 and 4"),
    ({"checkpoint": {"path": "../other", "every_steps": 1}}, "checkpoint.path", "leaves the shared folder"),
    ({"checkpoint": {"path": "/etc", "every_steps": 1}}, "checkpoint.path", "leaves the shared folder"),
    (
        {"tasks": [{"count": 9, "command": ["x"], "resources": {"accelerators": 1}}]},
        "tasks",
        "needs 9 accelerators, the pool has 8",
    ),
    (
        {"tasks": [{"command": ["x"], "resources": {"accelerators": 9}}]},
        "tasks",
        "a task needs 9 accelerators, the largest node has 8",
    ),
    ({"priority": 10**12}, "priority", "within"),
    ({"tasks": [{"count": 10**12, "command": ["x"]}]}, "tasks.0.count", "at most"),
    ({"tasks": [{"command": ["x"], "resources": {"cpu_cores": 1e300}}]}, "tasks.0.resources.cpu_cores", "at"),
    (
        {"tasks": [{"command": ["x"], "resources": {"memory_bytes": 10**30}}]},
        "tasks.0.resources.memory_bytes",
        "at most",
    ),
    ({"tasks": [{"command": ["a\0b"]}]}, "tasks.0", "NUL"),
    ({"tasks": [{"command": ["x"], "environment": {"A=B": "c"}}]}, "tasks.0.environment", "no name"),
    ({"schema": "ogai.job-record/v1"}, "schema", "is 'ogai.job-record/v1', not 'ogai.job-spec/v1'"),
]


@pytest.mark.parametrize(("change", "field", "words"), BAD_SPECS, ids=lambda value: str(value)[:40])
def test_bad_input_is_one_clear_error_and_changes_nothing(
    site: Any, make_spec: Make, change: dict[str, Any], field: str, words: str
) -> None:
    answer = site.client.post("/api/v1/jobs", json={**make_spec(), **change}, headers=site.operator)
    status, at, title = problem(answer)
    assert (status, at) == (422, field)
    assert words in title
    assert site.client.get("/api/v1/jobs", headers=site.operator).json() == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"name": "x", "tasks": [{"command": ["\\ud800"]}]}', 422),
        (b'{"name": "x", "tasks": [{"command": ["x"]}], "limits": {"time_s": Infinity}}', 422),
        (b'{"name": "x", "tasks": [{"command": ["x"], "resources": {"cpu_cores": NaN}}]}', 422),
        (b"{", 422),
        (b"[" * 100_000, 422),
        (b"\xff\xfe", 422),
        (b'"text"', 422),
        (b"x" * 2_000_000, 413),
    ],
)
def test_bodies_that_are_no_spec(site: Any, body: bytes, status: int) -> None:
    answer = site.client.post("/api/v1/jobs", content=body, headers=site.operator)
    assert problem(answer)[0] == status


def test_only_an_operator_submits_for_another_tenant(site: Any, make_spec: Make) -> None:
    post = site.client.post
    assert problem(post("/api/v1/jobs?tenant=blue", json=make_spec(), headers=site.red))[0] == 403
    assert problem(post("/api/v1/jobs?tenant=No Name", json=make_spec(), headers=site.operator))[0] == 422
    job = post("/api/v1/jobs?tenant=blue", json=make_spec(), headers=site.operator).json()["id"]
    assert site.until(job, "completed", who=site.blue)["tenant"] == "blue"


def test_the_same_key_is_the_same_job(site: Any, make_spec: Make) -> None:
    headers = {**site.red, "Idempotency-Key": "one"}
    first = site.client.post("/api/v1/jobs", json=make_spec(), headers=headers).json()["id"]
    again = site.client.post("/api/v1/jobs", json=make_spec(), headers=headers).json()["id"]
    other = site.client.post(
        "/api/v1/jobs", json=make_spec(), headers={**site.blue, "Idempotency-Key": "one"}
    ).json()["id"]
    assert first == again != other


def test_suspend_release_requeue_cancel(site: Any, make_spec: Make) -> None:
    job = site.submit(make_spec("import time; time.sleep(60)"))
    site.until(job, "running")

    def act(verb: str) -> Any:
        return site.client.post(f"/api/v1/jobs/{job}/{verb}", headers=site.operator)

    assert problem(act("release"))[0] == 409
    assert act("suspend").json()["state"] == "stopping"
    site.until(job, "suspended")
    assert problem(act("requeue"))[0] == 409
    assert act("release").json()["state"] == "queued"
    assert site.until(job, "running")["attempt"] == 2
    act("requeue")
    for _ in range(200):
        if site.until(job, "running")["attempt"] == 3:
            break
    assert act("cancel").json()["state"] == "stopping"
    view = site.until(job, "cancelled")
    assert [attempt["cause"] for attempt in view["attempts"]] == ["suspended", "queued", "cancelled"]
    assert problem(act("cancel"))[0] == 409


def test_a_time_limit_ends_a_job(site: Any, make_spec: Make) -> None:
    job = site.submit(make_spec("import time; time.sleep(60)", limits={"time_s": 0.5}))
    view = site.until(job, "failed")
    assert view["cause"] == "time_limit"


def test_a_queue_s_cap_is_held_and_explained(site: Any, make_spec: Make) -> None:
    limits = {"cap_accelerators": 4}
    assert site.client.put("/api/v1/queues/gold", json=limits, headers=site.operator).status_code == 200
    one = make_spec("import time; time.sleep(60)", queue="gold", resources={"accelerators": 3})
    first, second = site.submit(one), site.submit(one)
    site.until(first, "running")
    why = site.client.get(f"/api/v1/jobs/{second}/explain", headers=site.operator).json()
    assert why["words"] == "queue gold has room for 1 accelerators under its cap, the job needs 3"
    assert [holder["job"] for holder in why["holders"]] == [first]
    site.client.put("/api/v1/queues/gold", json={"cap_accelerators": 6}, headers=site.operator)
    site.until(second, "running")
    for job in (first, second):
        site.client.post(f"/api/v1/jobs/{job}/cancel", headers=site.operator)


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"guarantee_accelerators": 9}, "guarantee_accelerators"),
        ({"guarantee_accelerators": 5, "cap_accelerators": 4}, "guarantee_accelerators"),
        ({"weight": 0}, "weight"),
        ({"weight": "heavy"}, "weight"),
        ({"colour": 1}, "colour"),
        ({"cap_accelerators": -1}, "cap_accelerators"),
    ],
)
def test_limits_that_cannot_be(site: Any, limits: dict[str, Any], field: str) -> None:
    answer = site.client.put("/api/v1/queues/gold", json=limits, headers=site.operator)
    assert problem(answer)[:2] == (422, field)


def test_a_cordoned_node_takes_nothing_new(site: Any, make_spec: Make) -> None:
    body = {"reason": "fan"}
    assert site.client.post("/api/v1/nodes/local/cordon", json=body, headers=site.operator).status_code == 200
    job = site.submit(make_spec())
    why = site.client.get(f"/api/v1/jobs/{job}/explain", headers=site.operator).json()
    assert why["words"] == "no node is ready: 0 down, 1 cordoned, 0 spare"
    site.client.post("/api/v1/nodes/local/uncordon", headers=site.operator)
    site.until(job, "completed")
    assert problem(site.client.post("/api/v1/nodes/mars/cordon", headers=site.operator))[0] == 404


def test_metrics_are_scraped(site: Any, make_spec: Make) -> None:
    site.until(site.submit(make_spec()), "completed")
    text = site.client.get("/metrics").text
    assert 'aistation_accelerators{kind="total"} 8.0' in text
    assert 'aistation_jobs{queue="default",state="completed"} 1.0' in text
