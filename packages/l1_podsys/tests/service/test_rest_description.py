"""Generated requests: every answer has a status and a body that the description names, and none is a 500."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from l1_podsys.api import Settings, create_app

schemathesis = pytest.importorskip("schemathesis")

from hypothesis import HealthCheck, Phase, given, seed  # noqa: E402
from hypothesis import settings as hypothesis_settings  # noqa: E402

EXAMPLES = 200 if os.environ.get("OGAI_SOAK") == "1" else 15
#: these reach hosts over the network; the real tests call them
REACHING = {("POST", f"/api/v1/clusters/{{name}}/{what}") for what in ("plan", "verify", "apply")}


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


def test_generated_requests(client: TestClient, settings: Settings, fill: Callable[..., None]) -> None:
    fill("red", "red")
    token = (settings.home / "admin.token").read_text().strip()
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    tried = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if (operation.method.upper(), operation.path) not in REACHING:
            exercise(operation, client, token)
            tried += 1
    assert tried >= 9


def exercise(operation: Any, client: TestClient, token: str) -> None:
    @seed(int(os.environ.get("OGAI_SEED", "1")))
    @hypothesis_settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def run(case: Any) -> None:
        arguments = case.as_transport_kwargs()
        headers = {**(arguments.pop("headers", None) or {}), "Authorization": f"Bearer {token}"}
        arguments.pop("cookies", None)
        if isinstance(arguments.get("data"), bytes | str):
            arguments["content"] = arguments.pop("data")
        kept = {
            name: arguments[name]
            for name in ("json", "params", "files", "data", "content")
            if name in arguments
        }
        answer = client.request(case.method, case.formatted_path, headers=headers, **kept)
        assert answer.status_code < 500, answer.text
        assert str(answer.status_code) in operation.definition.raw["responses"], answer.status_code
        if answer.status_code >= 400:
            assert answer.json()["title"]

    run()
