"""REST: tenants see their own clusters and nothing else; operators act; every answer is as described."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from fastapi.testclient import TestClient
from l1_podsys.api import Settings, create_app

XID = b"[ 1.0] NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.\n"


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(settings)) as client:
        yield client


@pytest.fixture
def as_who(client: TestClient, settings: Settings) -> Callable[[str], dict[str, str]]:
    from l1_podsys._kit.tokens import TokenStore

    store = TokenStore(settings.tokens_file)
    tokens = {"operator": store.admin_token()}

    def headers(who: str) -> dict[str, str]:
        if who not in tokens:
            tokens[who] = store.create(who, tenant=who)
        return {"Authorization": f"Bearer {tokens[who]}"}

    return headers


Who = Callable[[str], dict[str, str]]


def test_two_tenants_see_only_their_own(client: TestClient, as_who: Who, fill: Callable[..., None]) -> None:
    fill("red", "red")
    fill("blue", "blue")
    for me, other in (("red", "blue"), ("blue", "red")):
        listed = client.get("/api/v1/clusters", headers=as_who(me)).json()
        assert [row["cluster"] for row in listed] == [me]
        for path in (
            "",
            "/report",
            "/runs",
            "/runs/20260101-000000-000000",
            "/runs/20260101-000000-000000/events",
        ):
            theirs = client.get(f"/api/v1/clusters/{other}{path}", headers=as_who(me))
            absent = client.get(f"/api/v1/clusters/absent{path}", headers=as_who(me))
            assert theirs.status_code == absent.status_code == 404
            assert theirs.json()["title"].replace(other, "absent") == absent.json()["title"]
        for path in ("/", "/runs", f"/clusters/{other}"):
            page = client.get(path, headers={**as_who(me), "accept": "text/html"})
            assert f"/clusters/{other}" not in page.text
    everything = client.get("/api/v1/clusters", headers=as_who("operator")).json()
    assert [row["cluster"] for row in everything] == ["blue", "red"]


def test_a_tenant_reads_and_does_not_act(client: TestClient, as_who: Who, fill: Callable[..., None]) -> None:
    fill("red", "red")
    mine = as_who("red")
    assert client.get("/api/v1/clusters/red/report", headers=mine).status_code == 200
    for method, path in (
        ("GET", "/clusters/red/plan"),
        ("POST", "/clusters/red/plan"),
        ("POST", "/clusters/red/verify"),
        ("POST", "/clusters/red/apply"),
        ("POST", "/clusters"),
    ):
        body = {"plan": "x", "inventory": "x"} if method == "POST" else None
        assert client.request(method, f"/api/v1{path}", headers=mine, json=body).status_code in (403, 422)
    assert client.request("POST", "/api/v1/clusters/red/plan", headers=mine).status_code == 403


def test_how_to_log_in_is_not_shown_to_tenants(client: TestClient, as_who: Who, podsys: object) -> None:
    text = (
        "cluster: red\ntenant: red\nssh: {user: ops, key: /root/.ssh/secret_key}\n"
        "hosts: [{id: n1, hostname: n1, address: 192.0.2.1}]\n"
    )
    made = client.post("/api/v1/clusters", headers=as_who("operator"), json={"inventory": text})
    assert made.status_code == 201
    assert "secret_key" in client.get("/api/v1/clusters/red", headers=as_who("operator")).text
    assert "secret_key" not in client.get("/api/v1/clusters/red", headers=as_who("red")).text


def test_no_token_no_answer(client: TestClient) -> None:
    for path in ("/clusters", "/clusters/x", "/clusters/x/report"):
        answer = client.get(f"/api/v1{path}")
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"


def test_only_the_newest_plan_is_applied(client: TestClient, as_who: Who, fill: Callable[..., None]) -> None:
    fill("red", "red")
    body = {"plan": "sha256:" + "0" * 64}
    answer = client.post("/api/v1/clusters/red/apply", headers=as_who("operator"), json=body)
    assert answer.status_code == 409
    assert answer.json()["field"] == "plan"


def test_an_inventory_with_a_slip_is_a_problem_with_its_field(client: TestClient, as_who: Who) -> None:
    host = "{id: n1, hostname: n1, address: 192.0.2.1}"
    body = {"inventory": f"hosts: [{host}, {host}]"}
    answer = client.post("/api/v1/clusters", headers=as_who("operator"), json=body)
    assert answer.status_code == 422
    assert answer.json()["field"] == "hosts.1.id"


def test_events_of_an_ended_run_come_in_order_and_end(
    client: TestClient, as_who: Who, fill: Callable[..., None]
) -> None:
    fill("red", "red")
    (run,) = client.get("/api/v1/clusters/red/runs", headers=as_who("red")).json()
    text = client.get(f"/api/v1/clusters/red/runs/{run['id']}/events", headers=as_who("red")).text
    assert [line for line in text.splitlines() if line.startswith("event: ")] == [
        "event: begin",
        "event: start",
        "event: fail",
        "event: end",
    ]
    detail = client.get(f"/api/v1/clusters/red/runs/{run['id']}", headers=as_who("red")).json()
    assert detail["failures"][0]["why"] == "no space left on device"


def test_diagnosis_of_an_upload(client: TestClient, as_who: Who) -> None:
    answer = client.post("/api/v1/diagnose", headers=as_who("red"), files={"files": ("kern.log", XID)})
    (finding,) = answer.json()
    assert finding["fault"] == "gpu-off-bus"
    assert finding["evidence"][0]["file"] == "kern.log"
    empty = client.post("/api/v1/diagnose", headers=as_who("red"), files={"files": ("a", b" \n")})
    assert empty.status_code == 422


def test_a_stack_is_completed_or_explained(client: TestClient, as_who: Who) -> None:
    body = {"stack": {"driver": "530.41.03", "fabricmanager": "530.30.02"}}
    answer = client.post("/api/v1/stack", headers=as_who("red"), json=body).json()
    assert answer["fits"] is False
    assert set(answer["conflict"]) == {"driver", "fabricmanager"}
    wrong = client.post("/api/v1/stack", headers=as_who("red"), json={"stack": {"divers": "1"}})
    assert wrong.status_code == 422


def test_metrics_count_what_is_known(client: TestClient, fill: Callable[..., None]) -> None:
    fill("red", "red")
    text = client.get("/metrics").text
    assert 'podsys_hosts{cluster="red"} 2.0' in text
    assert 'podsys_checks{cluster="red",verdict="pass"} 1.0' in text
