"""What if, over REST and on the page: answered from a copy, nothing changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from l2_aistation.web.pace import Pace

Make = Callable[..., dict[str, Any]]
SLEEP = "import time; time.sleep(60)"


@pytest.fixture
def waiting(site: Any, make_spec: Make) -> tuple[str, str]:
    """A job that holds all eight accelerators, and one of another tenant that waits for four."""
    busy = site.submit(make_spec(SLEEP, resources={"accelerators": 8}), site.red)
    site.until(busy, "running")
    return busy, site.submit(make_spec(SLEEP, resources={"accelerators": 4}), site.blue)


def ask(site: Any, job: str, who: dict[str, str], **change: Any) -> Any:
    return site.client.post(f"/api/v1/jobs/{job}/what-if", json=change, headers=who)


def test_more_nodes_or_fewer_jobs_let_it_start(site: Any, waiting: tuple[str, str]) -> None:
    busy, job = waiting
    before = site.client.get("/api/v1/pool", headers=site.operator).json()
    assert ask(site, job, site.blue).json()["starts"] in ("at", "unknown")
    more = ask(site, job, site.blue, nodes=1).json()
    assert (more["starts"], sum(more["leaves"].values())) == ("now", 1)
    assert ask(site, job, site.operator, without=[busy]).json()["starts"] == "now"
    assert ask(site, job, site.blue, accelerators=64).json()["starts"] == "never"
    after = site.client.get("/api/v1/pool", headers=site.operator).json()
    assert [node["accelerators"] for node in after["nodes"]] == [
        node["accelerators"] for node in before["nodes"]
    ]
    assert site.client.get(f"/api/v1/jobs/{job}", headers=site.blue).json()["state"] == "queued"


def test_what_cannot_be_asked(site: Any, waiting: tuple[str, str]) -> None:
    busy, job = waiting
    assert ask(site, job, site.red).status_code == 404
    assert ask(site, "no-job", site.blue).status_code == 404
    stranger = ask(site, job, site.blue, without=[busy])
    assert (stranger.status_code, stranger.json()["field"]) == (422, "without")
    assert ask(site, job, site.blue, queue="no-queue").json()["field"] == "queue"
    assert ask(site, job, site.blue, nodes=-1).status_code == 422
    assert ask(site, job, site.blue, planet="mars").status_code == 422
    assert ask(site, busy, site.red).status_code in (400, 409, 422)


def test_the_form_of_the_page(site: Any, waiting: tuple[str, str]) -> None:
    _, job = waiting
    headers = {**site.blue, "Accept": "text/html"}
    assert "what-if" in site.client.get(f"/jobs/{job}", headers=headers).text
    path = f"/fragments/jobs/{job}/what-if"
    assert "starts now" in site.client.post(path, data={"nodes": "1"}, headers=headers).text
    chinese = site.client.post(f"{path}?lang=zh", data={"nodes": "1"}, headers=headers).text
    assert "立即开始" in chinese
    site.client.cookies.clear()
    assert "no answer" in site.client.post(path, data={"nodes": "x"}, headers=headers).text


def test_who_asks_too_often_is_told_when_to_ask_again(site: Any, waiting: tuple[str, str]) -> None:
    """Each user has a bucket of its own; what it does not use comes back."""
    _, job = waiting
    now = [0.0]
    site.client.app.state.what_if.pace = Pace(0.5, 2, clock=lambda: now[0])
    assert [ask(site, job, site.blue).status_code for _ in range(3)] == [200, 200, 429]
    refused = ask(site, job, site.blue)
    assert refused.headers["Retry-After"] == "2"
    assert refused.headers["content-type"] == "application/problem+json"
    assert ask(site, job, site.operator).status_code == 200
    now[0] = 2.0
    assert [ask(site, job, site.blue).status_code for _ in range(2)] == [200, 429]
