"""The pages: each opens in both languages, says what the data says, and sends nobody elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import l1_podsys
import pytest
from fastapi.testclient import TestClient
from l1_podsys.api import Podsys, Settings, create_app
from l1_podsys.web.messages import MESSAGES

TEMPLATES = Path(l1_podsys.__file__).parent / "web" / "templates"


@pytest.fixture
def browser(settings: Settings, fill: Callable[..., None]) -> Iterator[TestClient]:
    fill("red", "red")
    with TestClient(create_app(settings), headers={"accept": "text/html"}) as client:
        client.post("/login", data={"token": (settings.home / "admin.token").read_text().strip()})
        yield client


def paths(podsys: Podsys) -> list[str]:
    (run,) = podsys.runs()
    red = "/clusters/red"
    return ["/", "/runs", red, f"{red}/plan", f"{red}/report", f"{red}/runs/{run.id}", "/diagnose", "/stack"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_page_opens_in_both_languages(browser: TestClient, podsys: Podsys, language: str) -> None:
    for path in paths(podsys):
        page = browser.get(path, params={"lang": language})
        assert page.status_code == 200, path
        assert ('lang="zh-CN">' in page.text.split("<head>")[0]) == (language == "zh")
        assert "<script>" not in page.text, "the policy allows no inline scripts"


def test_what_is_shown_is_what_is_stored(browser: TestClient, podsys: Podsys) -> None:
    plan = browser.get("/clusters/red/plan").text
    assert "/etc/x" in plan
    assert "no route" in plan
    (run,) = podsys.runs()
    assert "no space left on device" in browser.get(f"/clusters/red/runs/{run.id}").text
    assert "rounds 1 2 3" in browser.get("/clusters/red/report").text


def test_upload_and_stack_answer_on_the_page(browser: TestClient) -> None:
    log = b"[ 1.0] NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.\n<script>alert(1)</script>"
    page = browser.post("/diagnose", files={"files": ("<b>.log", log)}).text
    assert "gpu-off-bus" in page
    assert "<b>.log" not in page
    assert "<script>alert" not in page
    conflict = browser.get("/stack", params={"driver": "535.1.1", "cuda": "13.0"}).text
    assert "CUDA 13 needs driver 580+" in conflict


def test_an_unknown_cluster_is_a_page_not_a_trace(browser: TestClient) -> None:
    answer = browser.get("/clusters/none")
    assert answer.status_code == 404
    assert "Traceback" not in answer.text


def test_a_form_from_another_site_is_refused(browser: TestClient) -> None:
    answer = browser.post("/clusters/red/plan", headers={"origin": "http://evil.example"})
    assert answer.status_code == 403


def test_every_word_of_the_templates_has_its_chinese() -> None:
    words = set()
    for path in TEMPLATES.glob("*.html"):
        words |= set(re.findall(r"t\('([^']+)'\)", path.read_text("utf-8")))
    shell = {"Nothing here yet", "why", "try"}
    assert words - shell - set(MESSAGES) == set()
