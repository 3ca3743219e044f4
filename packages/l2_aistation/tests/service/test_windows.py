"""Reservations and maintenance as people meet them, and decisions that replay."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from l2_aistation.service import cycles

Make = Callable[..., dict[str, Any]]


def window(seconds: float, length: float, **more: Any) -> dict[str, Any]:
    begin = datetime.now(UTC) + timedelta(seconds=seconds)
    times = {"start": begin.isoformat(), "until": (begin + timedelta(seconds=length)).isoformat()}
    return {"kind": "maintenance", "nodes": ["local"], **times, **more}


def put(site: Any, name: str, body: dict[str, Any]) -> Any:
    return site.client.put(f"/api/v1/windows/{name}", json=body, headers=site.operator)


def test_nothing_starts_that_would_run_into_maintenance(site: Any, make_spec: Make) -> None:
    assert put(site, "cables", window(2, 1.5)).status_code == 200
    short = site.submit(make_spec(limits={"time_s": 1}))
    assert site.until(short, "completed")["attempt"] == 1
    long = site.submit(make_spec(limits={"time_s": 30}))
    why = site.client.get(f"/api/v1/jobs/{long}/explain", headers=site.operator).json()
    assert (why["state"], why["limit"]) == ("queued", "window")
    assert site.until(long, "completed")["started_at"] > window(-0.5, 1)["start"][:19]
    assert site.client.get("/api/v1/windows", headers=site.operator).json() == []


def test_a_reservation_is_for_those_who_are_let_in(site: Any, make_spec: Make) -> None:
    body = window(-1, 600, kind="reservation", tenant="red")
    assert put(site, "course", body).json()["nodes"] == ["local"]
    outsider = site.submit(make_spec(limits={"time_s": 30}), site.blue)
    intruder = site.submit({**make_spec(), "reservation": "course"}, site.blue)
    member = site.submit({**make_spec(), "reservation": "course"}, site.red)
    site.until(member, "completed")
    for job in (outsider, intruder):
        why = site.client.get(f"/api/v1/jobs/{job}/explain", headers=site.blue).json()
        assert why["state"] == "queued"
        assert why["limit"] in ("window", "reservation")
    waiting = site.submit({**make_spec(resources={"accelerators": 8}), "reservation": "course"}, site.red)
    site.until(waiting, "completed")
    assert site.client.delete("/api/v1/windows/course", headers=site.operator).status_code == 409
    site.client.post(f"/api/v1/jobs/{intruder}/cancel", headers=site.blue)
    assert site.client.delete("/api/v1/windows/course", headers=site.operator).status_code == 200
    site.until(outsider, "completed")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "party"}, "kind"),
        ({"nodes": []}, "nodes"),
        ({"nodes": ["mars"]}, "nodes"),
        ({"nodes": [], "count": 2}, "count"),
        ({"count": 1}, "nodes"),
        ({"until": "2001-01-01T00:00:00Z"}, "until"),
        ({"start": "soon"}, "start"),
        ({"queues": ["nobody"]}, "queues"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_windows_that_cannot_be(site: Any, change: dict[str, Any], field: str) -> None:
    answer = put(site, "w", {**window(10, 10), **change})
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert site.client.get("/api/v1/windows", headers=site.operator).json() == []


def test_the_journal_goes_on_from_a_new_snapshot_and_stays_short(
    site: Any, make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycles, "SNAPSHOT_EVERY", 3)
    for _ in range(6):
        site.until(site.submit(make_spec(resources={"accelerators": 8})), "completed")
    answer = site.client.get("/api/v1/replay", headers=site.operator).json()
    assert answer["same"]
    assert answer["cycles"] <= 3
    assert len(site.service.store.journal(0, 1000)) <= 6, "the last two snapshots' entries are kept"


def test_decisions_replay(site: Any, make_spec: Make) -> None:
    jobs = [site.submit(make_spec(resources={"accelerators": 8})) for _ in range(4)]
    for job in jobs:
        site.until(job, "completed")
    answer = site.client.get("/api/v1/replay", headers=site.operator).json()
    assert (answer["same"], answer["differences"]) == (True, [])
    assert answer["cycles"] >= 4
