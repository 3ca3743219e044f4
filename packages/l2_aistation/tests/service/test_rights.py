"""Who may do what, asked of every route: operators, owners of queues, users, strangers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from l2_aistation._kit.tokens import TokenStore

Make = Callable[..., dict[str, Any]]
WINDOW = {"kind": "maintenance", "start": "2099-01-01T00:00:00Z", "until": "2099-01-02T00:00:00Z", "count": 1}


@pytest.fixture
def people(site: Any) -> dict[str, dict[str, str]]:
    """Two users of one tenant, the owner of the queue `lab`, and a user of another tenant."""
    tokens = TokenStore(site.service.settings.tokens_file)
    made = {
        "ann": tokens.create("ann", "red"),
        "bob": tokens.create("bob", "red"),
        "olga": tokens.create("olga", "red", "owner", queues=["lab"]),
    }
    site.client.put("/api/v1/queues/lab", json={"cap_accelerators": 8}, headers=site.operator)
    site.client.put("/api/v1/queues/lab-a", json={"parent": "lab"}, headers=site.operator)
    site.client.put("/api/v1/queues/other", json={}, headers=site.operator)
    headers = {name: {"Authorization": f"Bearer {token}"} for name, token in made.items()}
    return {**headers, "blue": site.blue, "operator": site.operator}


def test_every_route_wants_a_token(site: Any) -> None:
    open_ones = {"/healthz", "/metrics", "/login", "/logout", "/favicon.ico", "/openapi.json"}
    paths = site.client.get("/openapi.json").json()["paths"]
    asked = 0
    for path, methods in paths.items():
        if path in open_ones or not path.startswith("/api/v1"):
            continue
        for method in methods:
            answer = site.client.request(method.upper(), path.replace("{", "x").replace("}", ""), json={})
            assert answer.status_code == 401, (method, path, answer.text)
            asked += 1
    assert asked > 20


def test_a_user_acts_on_its_own_jobs_and_sees_its_tenant_s(site: Any, people: Any, make_spec: Make) -> None:
    job = site.submit({**make_spec("import time; time.sleep(60)"), "queue": "lab-a"}, people["ann"])
    assert [row["id"] for row in site.client.get("/api/v1/jobs", headers=people["bob"]).json()] == [job]
    for verb in ("suspend", "cancel", "requeue", "release"):
        path = f"/api/v1/jobs/{job}/{verb}"
        assert site.client.post(path, headers=people["bob"]).status_code == 403
        assert site.client.post(path, headers=people["blue"]).status_code == 404
    site.until(job, "running")
    assert site.client.post(f"/api/v1/jobs/{job}/cancel", headers=people["ann"]).status_code == 200
    site.until(job, "cancelled")


def test_the_owner_of_a_queue_acts_on_what_is_in_it_and_below(
    site: Any, people: Any, make_spec: Make
) -> None:
    inside = site.submit({**make_spec("import time; time.sleep(60)"), "queue": "lab-a"}, people["ann"])
    outside = site.submit({**make_spec("import time; time.sleep(60)"), "queue": "other"}, people["ann"])
    theirs = site.submit({**make_spec("import time; time.sleep(60)"), "queue": "lab-a"}, people["blue"])
    for job, status in ((inside, 200), (outside, 403), (theirs, 404)):
        answer = site.client.post(f"/api/v1/jobs/{job}/cancel", headers=people["olga"])
        assert answer.status_code == status, answer.text
    for job in (outside, theirs):
        site.client.post(f"/api/v1/jobs/{job}/cancel", headers=site.operator)


@pytest.mark.parametrize(
    ("who", "queue", "body", "status"),
    [
        ("olga", "lab-b", {"parent": "lab"}, 200),
        ("olga", "lab-a", {"parent": "lab", "weight": 3}, 200),
        ("olga", "lab", {"cap_accelerators": 100}, 403),
        ("olga", "lab-a", {"parent": "other"}, 403),
        ("olga", "mine", {}, 403),
        ("ann", "lab-b", {"parent": "lab"}, 403),
        ("operator", "lab", {"cap_accelerators": 4}, 200),
        ("operator", "lab-a", {"parent": "lab-a"}, 422),
        ("operator", "lab-a", {"parent": "nobody"}, 422),
    ],
)
def test_who_sets_which_queue(
    site: Any, people: Any, who: str, queue: str, body: dict[str, Any], status: int
) -> None:
    answer = site.client.put(f"/api/v1/queues/{queue}", json=body, headers=people[who])
    assert answer.status_code == status, answer.text
    seen = {row["name"]: row for row in site.client.get("/api/v1/queues", headers=site.operator).json()}
    if status == 200:
        assert all(seen[queue][name] == value for name, value in body.items())
    else:
        assert seen["lab"]["cap_accelerators"] == 8
        assert (seen["lab-a"]["parent"], seen["lab-a"]["weight"]) == ("lab", 1)


def test_a_queue_goes_when_it_is_empty(site: Any, people: Any, make_spec: Make) -> None:
    job = site.submit({**make_spec("import time; time.sleep(60)"), "queue": "lab-a"}, people["ann"])

    def delete(queue: str, who: str) -> int:
        return int(site.client.delete(f"/api/v1/queues/{queue}", headers=people[who]).status_code)

    assert delete("lab-a", "ann") == 403
    assert delete("lab-a", "olga") == 409
    assert delete("lab", "operator") == 409
    assert delete("default", "operator") == 409
    assert delete("nobody", "operator") == 404
    site.client.post(f"/api/v1/jobs/{job}/cancel", headers=people["ann"])
    site.until(job, "cancelled")
    assert delete("lab-a", "olga") == 200
    assert delete("lab", "operator") == 200


def test_only_an_operator_keeps_nodes_free(site: Any, people: Any) -> None:
    for who in ("ann", "olga", "blue"):
        for method, body in (("PUT", WINDOW), ("DELETE", None)):
            answer = site.client.request(method, "/api/v1/windows/w", json=body, headers=people[who])
            assert answer.status_code == 403
        assert site.client.get("/api/v1/replay", headers=people[who]).status_code == 403
    assert site.client.put("/api/v1/windows/w", json=WINDOW, headers=site.operator).status_code == 200
    private = {
        **WINDOW,
        "kind": "reservation",
        "start": "2099-02-01",
        "until": "2099-02-02",
        "tenant": "blue",
    }
    answer = site.client.put("/api/v1/windows/b", json=private, headers=site.operator)
    assert answer.status_code == 200, answer.text
    names = {who: _names(site, people[who]) for who in ("ann", "blue", "operator")}
    assert names == {"ann": ["w"], "blue": ["w", "b"], "operator": ["w", "b"]}


def _names(site: Any, who: dict[str, str]) -> list[str]:
    return [row["name"] for row in site.client.get("/api/v1/windows", headers=who).json()]


def test_acts_leave_their_trace_in_the_log(site: Any, people: Any) -> None:
    site.client.put("/api/v1/queues/lab-b", json={"parent": "lab"}, headers=people["olga"])
    site.client.delete("/api/v1/queues/lab-b", headers=people["olga"])
    rows = site.client.get("/api/v1/log", headers=site.operator).json()
    acts = [
        (row["who"], row["body"]["name"], row["body"]["change"]) for row in rows if row["kind"] == "queue"
    ]
    assert acts[-2:] == [("olga", "lab-b", "set"), ("olga", "lab-b", "deleted")]
