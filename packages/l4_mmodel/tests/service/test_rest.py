"""REST and pages: two tenants that never see each other, forms, languages, every route fuzzed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from l4_mmodel._kit.tokens import TokenStore
from l4_mmodel.api import Mmodel, Settings, create_app
from l4_mmodel.testing import SCHEMA

ModelMaker = Callable[..., Path]


class Client:
    """A caller with a token of its own."""

    def __init__(self, client: Any, token: str) -> None:
        self.client = client
        self.headers = {"authorization": f"Bearer {token}"}

    def __call__(self, method: str, path: str, **options: Any) -> Any:
        return self.client.request(
            method, path, headers={**self.headers, **options.pop("headers", {})}, **options
        )


@pytest.fixture
def app(settings: Settings) -> Any:
    return create_app(settings)


@pytest.fixture
def http(app: Any) -> Iterator[Any]:
    from fastapi.testclient import TestClient

    with TestClient(app, base_url="http://testserver", follow_redirects=False) as client:
        yield client


@pytest.fixture
def tokens(settings: Settings) -> TokenStore:
    return TokenStore(settings.tokens_file)


@pytest.fixture
def red(http: Any, tokens: TokenStore) -> Client:
    return Client(http, tokens.create("red", "red"))


@pytest.fixture
def blue(http: Any, tokens: TokenStore) -> Client:
    return Client(http, tokens.create("blue", "blue"))


@pytest.fixture
def operator(http: Any, tokens: TokenStore) -> Client:
    return Client(http, tokens.admin_token())


@pytest.fixture
def reds_things(mmodel: Mmodel, make_model: ModelMaker) -> dict[str, str]:
    """A model, an adapter, a key and a deployment of the tenant red."""
    mine = mmodel.of("red", "test")
    base = mine.register(make_model(), alias="production")
    adapter = make_model(type="adapter", name="lora", base={"schema": SCHEMA, "digest": base.digest})
    mine.register(adapter)
    mine.keys.create("reds-key")
    return {"digest": base.digest}


LISTS = [
    "models",
    "versions",
    "datasets",
    "evaluations",
    "evaluation-runs",
    "leader-board",
    "deployments",
    "keys",
    "usage",
    "audit",
]


def test_two_tenants_see_nothing_of_each_other(
    red: Client, blue: Client, reds_things: dict[str, str]
) -> None:
    digest = reds_things["digest"]
    assert red("POST", "/api/v1/deployments", json={"version": "tiny"}).status_code == 202
    for name in ("models", "versions", "deployments", "keys", "audit"):
        assert red("GET", f"/api/v1/{name}").json() != []
    for name in LISTS:
        assert blue("GET", f"/api/v1/{name}").json() == [], name
        assert blue("GET", f"/api/v1/{name}?tenant=red").status_code == 404
    for method, path, body in (
        ("GET", "versions/tiny", None),
        ("GET", f"versions/{digest}", None),
        ("GET", "versions/tiny/lineage", None),
        ("POST", "versions/tiny/verify", None),
        ("PUT", "versions/tiny/alias", {"alias": "mine"}),
        ("GET", "versions/tiny/alias-history", None),
        ("DELETE", "versions/tiny@1", None),
        ("POST", "deployments", {"version": digest}),
        ("GET", "deployments/tiny", None),
        ("GET", "deployments/tiny/latency", None),
        ("DELETE", "deployments/tiny", None),
        ("DELETE", "keys/reds-key", None),
        ("POST", "promotions", {"version": "tiny", "rule": "n > 0"}),
    ):
        assert blue(method, f"/api/v1/{path}", json=body).status_code == 404, path
    assert red("GET", "/api/v1/versions/tiny").json()["aliases"] == ["production"]
    assert red("GET", "/api/v1/keys").json()[0]["revoked_at"] is None


def test_an_operator_sees_all_and_acts_for_one(operator: Client, reds_things: dict[str, str]) -> None:
    assert {row["tenant"] for row in operator("GET", "/api/v1/models").json()} == {"red"}
    assert operator("GET", "/api/v1/versions/tiny").status_code == 404
    assert operator("GET", "/api/v1/versions/tiny?tenant=red").status_code == 200


def test_only_an_operator_registers_from_the_servers_disk(
    operator: Client, red: Client, make_model: ModelMaker
) -> None:
    body = {"path": str(make_model()), "alias": "first"}
    assert red("POST", "/api/v1/models", json=body).status_code == 403
    made = operator("POST", "/api/v1/models?tenant=red", json=body)
    assert (made.status_code, made.json()["aliases"]) == (201, ["first"])
    assert operator("POST", "/api/v1/models", json={"path": "/etc/passwd"}).status_code == 422
    assert red("GET", "/api/v1/versions/tiny@first").json()["manifest"]["name"] == "tiny"


def test_without_a_token_nothing(http: Any) -> None:
    for name in LISTS:
        assert http.get(f"/api/v1/{name}").status_code == 401
    assert http.get("/models", headers={"accept": "text/html"}).headers["location"].startswith("/login")
    assert http.get("/v1/models").json()["error"]["code"] == "missing_api_key"


def test_a_key_is_shown_once(red: Client) -> None:
    made = red("POST", "/api/v1/keys", json={"name": "k", "requests_per_minute": 5}).json()
    assert made["key"].startswith("sk-ogai-")
    row = red("GET", "/api/v1/keys").json()[0]
    assert made["key"] not in str(row)
    assert (row["requests_per_minute"], row["hint"][-4:]) == (5, made["key"][-4:])
    assert red("POST", "/api/v1/keys", json={"name": "k"}).status_code == 409
    assert red("POST", "/api/v1/keys", json={"name": "x", "scopes": ["all"]}).status_code == 422


def test_a_suite_over_rest_names_registered_data_only(red: Client, reds_things: dict[str, str]) -> None:
    suite = {"name": "s", "tasks": [{"name": "t", "data": "../../etc/passwd"}]}
    answer = red("POST", "/api/v1/evaluations", json={"suite": suite, "models": ["tiny"]})
    assert (answer.status_code, "registered data set" in answer.json()["title"]) == (422, True)
    suite["tasks"][0]["data"] = "dataset:none"  # type: ignore[index]
    assert red("POST", "/api/v1/evaluations", json={"suite": suite, "models": ["tiny"]}).status_code == 404


@pytest.mark.parametrize("language", ["en", "zh"])
def test_pages_in_both_languages(
    http: Any, tokens: TokenStore, reds_things: dict[str, str], language: str
) -> None:
    http.cookies.set("ogai_token", tokens.create("page", "red"))
    pages = [
        "/",
        "/models/tiny",
        "/versions/tiny@1",
        "/datasets",
        "/evaluations",
        "/deployments",
        "/chat",
        "/keys",
    ]
    for page in pages:
        answer = http.get(f"{page}?lang={language}", headers={"accept": "text/html"})
        assert answer.status_code == 200, page
        assert ("模型" in answer.text) is (language == "zh")
    assert http.get("/versions/none", headers={"accept": "text/html"}).status_code == 404


def test_forms_work_and_other_sites_may_not_use_them(
    http: Any, tokens: TokenStore, reds_things: dict[str, str]
) -> None:
    http.cookies.set("ogai_token", tokens.create("page", "red"))
    made = http.post("/keys", data={"name": "by-form", "requests_per_minute": "7"})
    assert "sk-ogai-" in made.text
    assert "sk-ogai-" not in http.get("/keys").text
    assert http.post("/keys/by-form/revoke").status_code == 303
    assert http.post("/versions/tiny@1/verify").headers["location"].endswith("verified=1")
    assert http.post("/deployments", data={"version": "tiny@1"}).status_code == 303
    foreign = {"origin": "https://evil.example"}
    assert http.post("/keys", data={"name": "x"}, headers=foreign).status_code == 403
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "x"}]}
    assert http.post("/v1/chat/completions", json=chat, headers=foreign).status_code == 401


def test_every_route_keeps_to_its_schema(app: Any, tokens: TokenStore, reds_things: dict[str, str]) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    from fastapi.testclient import TestClient
    from hypothesis import HealthCheck, Phase, given
    from hypothesis import settings as hypothesis_settings

    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    token = tokens.create("fuzz", "red")
    quick = hypothesis_settings(
        max_examples=4, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    with TestClient(app):
        for operation in (found.ok() for found in schema.get_all_operations()):
            starts_work = (operation.method, operation.path) == ("post", "/api/v1/evaluations")
            if starts_work or not operation.path.startswith("/api/"):
                continue

            @quick
            @given(case=operation.as_strategy())
            def no_server_error(case: Any) -> None:
                answer = case.call(headers={"authorization": f"Bearer {token}"})
                assert answer.status_code < 500, (case.method, case.path, answer.text)

            no_server_error()
