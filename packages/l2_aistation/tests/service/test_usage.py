"""Usage over REST: what a job held is in every dimension, and tenants see their own."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable
from typing import Any

import pytest
from l2_aistation.service.metering import Metering, UsageTotals

Make = Callable[..., dict[str, Any]]


def usage(site: Any, who: dict[str, str], by: str = "tenant", **window: str) -> dict[str, Any]:
    answer = site.client.get("/api/v1/usage", params={"by": by, **window}, headers=who)
    assert answer.status_code == 200, answer.text
    report: dict[str, Any] = answer.json()
    return report


@pytest.fixture
def history(site: Any, make_spec: Make) -> dict[str, Any]:
    """Two tenants that held 4 and 2 of 8 accelerators for a while."""
    sleep = "import time; time.sleep(60)"
    jobs = [
        site.submit(make_spec(sleep, resources={"accelerators": 4}), site.red),
        site.submit(make_spec(sleep, resources={"accelerators": 2}), site.blue),
    ]
    for job in jobs:
        site.until(job, "running")
    time.sleep(0.5)
    for job in jobs:
        site.client.post(f"/api/v1/jobs/{job}/cancel", headers=site.operator)
    return {job: site.until(job, "cancelled") for job in jobs}


def test_usage_adds_up_in_every_dimension(site: Any, history: dict[str, Any]) -> None:
    reports = {by: usage(site, site.operator, by) for by in ("tenant", "queue", "user", "model")}
    assert [row["tenant"] for row in reports["tenant"]["rows"]] == ["red", "blue"]
    assert [row["queue"] for row in reports["queue"]["rows"]] == ["default"]
    assert [row["model"] for row in reports["model"]["rows"]] == ["H100"]
    assert {row["user"] for row in reports["user"]["rows"]} == {"red", "blue"}
    totals = {tuple(report["total"].values())[1:4] for report in reports.values()}
    assert len(totals) == 1
    (pool,) = reports["tenant"]["pool"]
    parts = ("used_hours", "idle_hours", "out_of_service_hours", "free_hours")
    assert sum(pool[part] for part in parts) == pytest.approx(pool["capacity_hours"], abs=1e-4)
    assert pool["used_hours"] + pool["idle_hours"] == pytest.approx(
        reports["tenant"]["total"]["held_hours"], abs=1e-4
    )


def test_what_was_held_is_the_attempt_s_time(site: Any, history: dict[str, Any]) -> None:
    rows = {row["tenant"]: row for row in usage(site, site.operator)["rows"]}
    for view, cards in zip(history.values(), (4, 2), strict=True):
        attempt = view["attempts"][0]
        times = [
            time.mktime(time.strptime(attempt[name][:19], "%Y-%m-%dT%H:%M:%S")) + float(attempt[name][19:-1])
            for name in ("created_at", "ended_at")
        ]
        assert rows[view["tenant"]]["held_hours"] == pytest.approx(
            cards * (times[1] - times[0]) / 3600, abs=2e-6 * cards
        )
        assert rows[view["tenant"]]["jobs"] == 1
        assert 0 < rows[view["tenant"]]["idle_share"] < 1  # it took a moment to start and to stop


def test_a_tenant_sees_its_own_usage_and_the_pool_s(site: Any, history: dict[str, Any]) -> None:
    mine = usage(site, site.red)
    everyone = usage(site, site.operator)
    assert [row["tenant"] for row in mine["rows"]] == ["red"]
    assert mine["pool"][0]["used_hours"] == pytest.approx(everyone["pool"][0]["used_hours"], abs=1e-5)
    assert "blue" not in site.client.get("/api/v1/usage?by=user", headers=site.red).text


def test_usage_as_csv(site: Any, history: dict[str, Any]) -> None:
    answer = site.client.get("/api/v1/usage.csv?by=queue", headers=site.operator)
    assert answer.headers["content-type"].startswith("text/csv")
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert row["queue"] == "default"
    assert float(row["held_hours"]) == usage(site, site.operator, "queue")["rows"][0]["held_hours"]


@pytest.mark.parametrize(
    ("window", "field"),
    [
        ({"since": "yesterday"}, "since"),
        ({"until": "2026-13-01"}, "until"),
        ({"since": "1h", "until": "2h"}, "since"),
        ({"since": "2999-01-01"}, "since"),
        ({"by": "planet"}, "by"),
    ],
)
def test_a_bad_window_is_said_in_one_line(site: Any, window: dict[str, str], field: str) -> None:
    answer = site.client.get("/api/v1/usage", params=window, headers=site.operator)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_a_window_of_before_is_empty_and_one_of_ages_is_not(site: Any, history: dict[str, Any]) -> None:
    past = usage(site, site.operator, since="2d", until="1d")
    assert (past["rows"], past["pool"], past["pool_since"]) == ([], [], None)
    ages = usage(site, site.operator, since="99999999999999w")
    assert ages["total"]["held_hours"] > 0


def test_the_counters_grow_to_what_the_report_says(site: Any, history: dict[str, Any]) -> None:
    totals = UsageTotals(Metering(site.service.store, site.service.platform))
    for _ in range(3):  # again does not count again
        totals.refresh()
    report = usage(site, site.operator)["total"]
    assert sum(held for held, _ in totals.totals.values()) / 3600 == pytest.approx(
        report["held_hours"], abs=1e-5
    )
    assert sum(idle for _, idle in totals.totals.values()) / 3600 == pytest.approx(
        report["idle_hours"], abs=1e-5
    )


def test_metrics_of_queues_and_usage(site: Any, history: dict[str, Any]) -> None:
    end = time.monotonic() + 20
    while 'aistation_held_accelerator_seconds_total{model="H100"' not in site.client.get("/metrics").text:
        assert time.monotonic() < end
        time.sleep(0.1)
    text = site.client.get("/metrics").text
    assert 'aistation_queue_accelerators{kind="used",queue="default"} 0.0' in text
    assert 'aistation_model_accelerators{kind="total",model="H100"} 8.0' in text
    assert 'queue="default",tenant="red"' in text


def test_the_curves_begin_where_the_pool_began(site: Any, history: dict[str, Any]) -> None:
    answer = site.client.get("/live/shares?span=7d", headers=site.operator).json()
    assert 2 <= len(answer["at"]) <= 120
    assert answer["at"][-1] - answer["at"][0] < 120
    assert answer["capacity"] == [8.0] * len(answer["at"])
    assert max(answer["held"]["default"]) > 0
    assert len(answer["held"]["default"]) == len(answer["at"])
