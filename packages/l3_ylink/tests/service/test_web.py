"""Pages and REST: what a tenant sees, in both languages, and that strange requests get clear answers."""

import json
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from l3_ylink._kit.tokens import TokenStore
from l3_ylink.api import Settings, create_app, run_recipe
from l3_ylink.datakit.recipe import parse_recipe
from l3_ylink.store.shelf import Shelf

TEXT = "The agent tells the server how the work goes, and the people look at the page to see that it does. "
STEPS = [
    {"step": "extract"},
    {"step": "clean"},
    {"step": "language"},
    {"step": "quality", "rules": ["damage", "chinese"]},
    {"step": "personal"},
    {"step": "exact"},
    {"step": "near"},
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("web")
    (place / "in").mkdir()
    (place / "in/a.txt").write_text(f"{TEXT} Write to me@example.com <b>today</b>.")
    (place / "in/b.txt").write_text(f"{TEXT} Write to me@example.com <b>today</b>.")
    (place / "in/诗.txt").write_text("白日依山尽，黄河入海流。\n欲穷千里目，更上一层楼。\n")
    recipe = parse_recipe({"name": "web", "sources": [{"name": "s", "licence": "MIT"}], "steps": STEPS})
    run_recipe(recipe, input_folder=place / "in", out=place / "red")
    run_recipe(recipe, input_folder=place / "in", out=place / "blue")
    home = Settings.load(home=place / "home")
    for tenant in ("red", "blue"):
        Shelf(home.state_dir).add(kind="data", name=f"{tenant} set", path=place / tenant, tenant=tenant)
        TokenStore(home.tokens_file).create(tenant, tenant)
    TokenStore(home.tokens_file).admin_token()
    (place / "run").mkdir()
    rows = [{"step": step, "attempt": 1 if step < 4 else 2, "loss": 5 - step / 4} for step in (1, 2, 3, 3, 4)]
    (place / "run/steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Shelf(home.state_dir).add(kind="run", name="pretrain", path=place / "run", tenant="red")
    return place


def client(place: Path, who: str | None) -> TestClient:
    home = Settings.load(home=place / "home")
    store = TokenStore(home.tokens_file)
    if who == "admin":
        token = store.admin_token()
    elif who is not None:
        name = f"{who}-{len(store.rows())}"
        token = store.create(name, who)
    return TestClient(create_app(home), headers={"authorization": f"Bearer {token}"} if who else {})


def only(found: TestClient, kind: str = "datasets") -> str:
    return str(found.get(f"/api/v1/{kind}").json()[0]["id"])


def test_a_tenant_sees_its_own_things_and_others_are_not_there(place: Path) -> None:
    red, blue, admin = client(place, "red"), client(place, "blue"), client(place, "admin")
    assert [row["name"] for row in red.get("/api/v1/datasets").json()] == ["red set"]
    assert len(admin.get("/api/v1/datasets").json()) == 2
    mark, run = only(red), only(red, "runs")
    paths = [
        f"/api/v1/datasets/{mark}",
        f"/api/v1/datasets/{mark}/documents",
        f"/api/v1/datasets/{mark}/document?id=a.txt",
        f"/api/v1/datasets/{mark}/thresholds",
        f"/api/v1/runs/{run}",
        f"/api/v1/runs/{run}/curve",
        f"/data/{mark}",
        f"/data/{mark}/document?id=a.txt",
        f"/training/{run}",
    ]
    for path in paths:
        assert red.get(path).status_code == 200, path
        assert blue.get(path).status_code == 404, path
        assert admin.get(path).status_code == 200, path
    change = {"changes": {"near.threshold": 0.9}}
    assert red.post(f"/api/v1/datasets/{mark}/whatif", json=change).status_code == 200
    assert blue.post(f"/api/v1/datasets/{mark}/whatif", json=change).status_code == 404
    assert blue.get("/api/v1/runs").json() == []


def test_nothing_is_told_without_a_token(place: Path) -> None:
    nobody = client(place, None)
    assert nobody.get("/api/v1/datasets").status_code == 401
    page = nobody.get("/data", headers={"accept": "text/html"}, follow_redirects=False)
    assert (page.status_code, page.headers["location"]) == (303, "/login?next=/data")


def test_a_document_is_explained_beside_its_original(place: Path) -> None:
    red = client(place, "red")
    found = red.get(f"/api/v1/datasets/{only(red)}/document", params={"id": "b.txt"}).json()
    assert (found["kept"], found["step"], found["reason"], found["other"]) == (
        False,
        "exact",
        "same_text",
        "a.txt",
    )
    assert "me@example.com" in found["original"]
    assert "<EMAIL>" in found["text"]
    assert "me@example.com" not in found["text"]
    assert [check["held"] for check in found["checks"]][-1] is False


@pytest.mark.parametrize(("language", "word"), [("en", "Waterfall"), ("zh", "漏斗")])
def test_pages_speak_both_languages_and_escape_what_they_show(place: Path, language: str, word: str) -> None:
    red = client(place, "red")
    mark, run = only(red), only(red, "runs")
    pages = [
        "/",
        "/data",
        f"/data/{mark}",
        f"/data/{mark}/documents?kept=no",
        "/recipes",
        "/training",
        "/plans",
    ]
    pages += [
        f"/data/{mark}/document?id=a.txt",
        f"/training/{run}",
        f"/data/{mark}/whatif?near.threshold=0.9",
    ]
    for page in pages:
        answer = red.get(
            page, params={"lang": language} if "?" not in page else None, headers={"accept": "text/html"}
        )
        assert answer.status_code == 200, page
        assert "<b>today</b>" not in answer.text
    assert word in red.get(f"/data/{mark}?lang={language}").text


def test_the_curve_shows_the_last_attempt_where_attempts_overlap(place: Path) -> None:
    red = client(place, "red")
    curve = red.get(f"/api/v1/runs/{only(red, 'runs')}/curve").json()
    assert curve["step"] == [1, 2, 3, 4]
    assert curve["attempt"] == [1, 1, 1, 2]


def test_a_recipe_is_checked_by_page_and_rest_in_the_same_words(place: Path) -> None:
    red = client(place, "red")
    wrong = "name: x\nsources: [{name: a, licence: MIT}]\nsteps: [{step: extrct}]\n"
    problem = red.post("/api/v1/recipes/check", json={"recipe": wrong})
    assert (problem.status_code, problem.json()["field"]) == (422, "steps.0.step")
    page = red.post("/recipes", data={"recipe": wrong}, headers={"accept": "text/html"})
    assert problem.json()["title"].replace("'", "&#39;") in page.text
    right = wrong.replace("extrct", "extract")
    assert red.post("/api/v1/recipes/check", json={"recipe": right}).json()["digest"].startswith("sha256:")


def test_it_runs_under_a_prefix(place: Path) -> None:
    from fastapi import FastAPI

    home = Settings.load(home=place / "home")
    outer = FastAPI()
    outer.mount("/l3", create_app(home))
    token = TokenStore(home.tokens_file).admin_token()
    page = TestClient(outer, headers={"authorization": f"Bearer {token}"}).get("/l3/data")
    assert 'href="/l3/data/' in page.text
    assert TestClient(outer).get("/l3/assets/data.css").status_code == 200


def test_strange_requests_get_clear_answers(place: Path) -> None:
    home = Settings.load(home=place / "home")
    token = TokenStore(home.tokens_file).admin_token()
    schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(home))
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 10
    for operation in operations:
        probe(operation, token)


def probe(operation: Any, token: str) -> None:
    @given(case=operation.as_strategy())
    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
    def answers(case: schemathesis.Case) -> None:
        answer = case.call(headers={"authorization": f"Bearer {token}"})
        assert answer.status_code < 500, (case.path, answer.text)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == ["application/problem+json"]

    answers()
