"""A session through the platform: its owner comes in, others of the tenant and other tenants do not."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

import httpx
import pytest


@pytest.mark.real
@pytest.mark.skipif(importlib.util.find_spec("jupyterlab") is None, reason="needs the extra notebook")
def test_a_notebook_is_its_owners_and_completes_when_idle(site: Any) -> None:
    spec = {
        "name": "note",
        "tasks": [{"preset": {"name": "notebook"}, "resources": {"cpu_cores": 0.5}}],
        "idle": {"after_s": 6},
    }
    job = site.submit(spec, site.red)
    path = f"/api/v1/jobs/{job}/session"
    until = time.monotonic() + 60
    while (answer := site.client.get(path, headers=site.red)).status_code == 404:
        assert time.monotonic() < until, site.client.get(f"/api/v1/jobs/{job}", headers=site.red).text
        time.sleep(0.2)
    told = answer.json()
    status = f"{told['url'].removesuffix('/lab')}/api/status"
    assert httpx.get(status, headers={"Authorization": f"token {told['token']}"}).status_code == 200
    assert site.client.get(path, headers=site.blue).status_code == 404
    assert site.client.get(path, headers=site.operator).json() == told
    assert site.until(job, "completed", "failed", who=site.red)["state"] == "completed"
    assert site.client.get(path, headers=site.red).status_code == 404
    log = site.client.get(f"/api/v1/jobs/{job}/log", headers=site.red).text
    assert told["token"] not in str(site.client.get(f"/api/v1/jobs/{job}", headers=site.red).json())
    assert told["token"] not in log


def test_a_job_without_a_session_says_so(site: Any, make_spec: Any) -> None:
    job = site.submit(make_spec("import time; time.sleep(600)"))
    site.until(job, "running")
    answer = site.client.get(f"/api/v1/jobs/{job}/session", headers=site.operator)
    assert answer.status_code == 404
    assert "no session" in answer.text


def test_an_unknown_preset_is_refused_before_anything_is_stored(site: Any) -> None:
    spec = {"name": "x", "tasks": [{"preset": {"name": "torchrunn", "script": "a.py"}}]}
    answer = site.client.post("/api/v1/jobs", json=spec, headers=site.operator)
    assert answer.status_code == 422 or answer.status_code == 400
    assert "tasks.0.preset.name" in answer.text
    assert "torchrun, deepspeed" in answer.text
    assert site.client.get("/api/v1/jobs", headers=site.operator).json() == []
