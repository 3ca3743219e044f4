"""The pages, in both languages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import l2_aistation.web
import pytest
from l2_aistation._kit.web import SHELL_MESSAGES
from l2_aistation.core import cycle, explain
from l2_aistation.core.policy import quota
from l2_aistation.web.messages import MESSAGES

Make = Callable[..., dict[str, Any]]
TEMPLATES = Path(l2_aistation.web.__file__).parent / "templates"


def test_every_word_of_the_templates_has_its_chinese() -> None:
    words = {
        word
        for path in TEMPLATES.glob("*.html")
        for word in re.findall(r"\bt\('([^']+)'\)", path.read_text("utf-8"))
    }
    assert len(words) > 50
    assert words <= MESSAGES.keys() | SHELL_MESSAGES.keys()


def test_every_reason_has_its_chinese_with_the_same_numbers() -> None:
    texts = "".join(Path(str(module.__file__)).read_text("utf-8") for module in (explain, quota, cycle))
    templates = {
        text for text in re.findall(r'"([^"\n]*\{(?:needed|of|free)\}[^"\n]*)"', texts) if " " in text
    }
    whole = {
        text if not text.startswith((", ", " {")) else "" for text in templates
    }  # pieces of joined sentences are checked below
    joined = {
        "needs {needed} {unit}, free are {free}",
        "needs {needed} {unit}, the pool has {free}",
    }
    for text in (whole - {"", "needs {needed} {unit}, "}) | joined:
        assert text in MESSAGES, text
        assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", MESSAGES[text]))


@pytest.mark.parametrize("path", ["/", "/jobs", "/queues", "/faults", "/fragments/pool", "/fragments/jobs"])
def test_pages_answer_in_both_languages(site: Any, path: str) -> None:
    headers = {**site.operator, "Accept": "text/html"}
    english = site.client.get(path, headers=headers)
    chinese = site.client.get(f"{path}?lang=zh", headers=headers)
    assert english.status_code == chinese.status_code == 200
    assert not re.search(r"[\u4e00-\u9fff]", english.text.replace("中文", ""))
    assert re.search(r"[\u4e00-\u9fff]", chinese.text)
    assert "script-src" not in english.headers["content-security-policy"]
    assert not re.search(r"<script(?![^>]*src=)[^>]*>", english.text)


def test_a_job_s_page_shows_why_it_waits_and_what_happened(site: Any, make_spec: Make) -> None:
    headers = {**site.operator, "Accept": "text/html"}
    busy = site.submit(make_spec("import time; time.sleep(60)", resources={"accelerators": 8}))
    site.until(busy, "running")
    job = site.submit(make_spec("raise ValueError('<b>bold</b>')", resources={"accelerators": 2}))
    page = site.client.get(f"/jobs/{job}", headers=headers).text
    assert "needs 2 accelerators, free are 0" in page
    assert busy in page
    assert "需要 2 加速卡，空闲 0" in site.client.get(f"/jobs/{job}?lang=zh", headers=headers).text
    site.client.cookies.clear()
    site.client.post(f"/jobs/{busy}/cancel", headers=headers)
    site.until(job, "failed")
    page = site.client.get(f"/jobs/{job}?lang=en", headers=headers).text
    assert "user_code_error" in page
    assert "&lt;b&gt;bold" in page
    assert "<b>bold" not in page


def test_the_form_submits_and_the_buttons_act(site: Any) -> None:
    headers = {**site.red, "Accept": "text/html"}
    text = "name: form\ntasks:\n- command: [sleep, '60']\n"
    answer = site.client.post("/jobs", data={"spec": text}, headers=headers, follow_redirects=False)
    assert answer.status_code == 303
    job = answer.headers["location"].rpartition("/")[2]
    site.until(job, "running")
    assert site.client.post(f"/jobs/{job}/cancel", headers=headers).status_code == 200
    site.until(job, "cancelled")
    bad = site.client.post("/jobs", data={"spec": "name: [}"}, headers=headers)
    assert bad.status_code == 422
    assert "neither YAML nor JSON" in bad.text


def test_strangers_are_sent_to_the_login(site: Any) -> None:
    answer = site.client.get("/", headers={"Accept": "text/html"}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/")
