"""A platform of one machine with the real local engine, behind its web application."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from l2_aistation._kit.tokens import TokenStore
from l2_aistation.core.pool import AcceleratorFacts, ClusterFacts, NodeFacts
from l2_aistation.service import Service
from l2_aistation.settings import Settings
from l2_aistation.web import create_app

CARDS = tuple(AcceleratorFacts(number, "nvidia", "H100", 80 << 30) for number in range(8))


class OneMachine:
    """This machine, said to have eight accelerators and sixteen cores."""

    def cluster(self) -> ClusterFacts:
        return ClusterFacts("one machine", (NodeFacts("local", 16, 1 << 36, CARDS, "leaf1", "spine1"),))


@dataclass
class Site:
    """A running application with clients of an operator and of two tenants."""

    client: TestClient
    service: Service
    operator: dict[str, str]
    red: dict[str, str]
    blue: dict[str, str]

    def submit(self, spec: dict[str, Any], who: dict[str, str] | None = None) -> str:
        answer = self.client.post("/api/v1/jobs", json=spec, headers=who or self.operator)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def until(self, job: str, *states: str, who: dict[str, str] | None = None) -> dict[str, Any]:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            view: dict[str, Any] = self.client.get(f"/api/v1/jobs/{job}", headers=who or self.operator).json()
            if view["state"] in states:
                return view
            time.sleep(0.05)
        raise AssertionError(f"{job} is {view['state']}, not {states}")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    options = Settings.load(home=tmp_path, heartbeat_s=0.2, grace_s=0.5)
    app = create_app(options, service=lambda settings: Service(settings, source=OneMachine()))
    tokens = TokenStore(options.tokens_file)
    headers = [
        {"Authorization": f"Bearer {token}"}
        for token in (
            tokens.admin_token(),
            tokens.create("red", "red"),
            tokens.create("blue", "blue"),
        )
    ]
    with TestClient(app, raise_server_exceptions=False) as client:
        one = Site(client, app.state.service, *headers)
        while not client.get("/api/v1/pool", headers=one.operator).json()["up"]:
            time.sleep(0.02)
        yield one


def spec(code: str = "pass", *, count: int = 1, name: str = "job", **more: Any) -> dict[str, Any]:
    group: dict[str, Any] = {"count": count, "command": [sys.executable, "-c", code]}
    group["resources"] = more.pop("resources", {"cpu_cores": 0.1})
    return {"name": name, "tasks": [group], **more}


@pytest.fixture
def make_spec() -> Callable[..., dict[str, Any]]:
    """A job-spec around a line of Python."""
    return spec
