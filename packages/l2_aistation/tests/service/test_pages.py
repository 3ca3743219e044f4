"""The pages, in both languages."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import l2_aistation.core
import l2_aistation.web
import pytest
from l2_aistation._kit.tokens import TokenStore
from l2_aistation._kit.web import SHELL_MESSAGES
from l2_aistation.web.messages import MESSAGES
from l2_aistation.web.pages import WORDS

Make = Callable[..., dict[str, Any]]
FILLED = re.compile(r"[^\n]*\{(needed|free|unit|of)\}[^\n]*")
TEMPLATES = Path(l2_aistation.web.__file__).parent / "templates"


def test_every_word_of_the_templates_has_its_chinese() -> None:
    words = {
        word
        for path in TEMPLATES.glob("*.html")
        for word in re.findall(r"\bt\('([^']+)'\)", path.read_text("utf-8"))
    }
    assert len(words) > 50
    assert words <= MESSAGES.keys() | SHELL_MESSAGES.keys()


def test_no_chinese_without_use() -> None:
    """Words stand in a template, a script or a module; reasons are checked by themselves below."""
    package = Path(l2_aistation.web.__file__).parents[1]
    used = "".join(
        path.read_text("utf-8")
        for pattern in ("web/templates/*.html", "web/static/*.js", "web/*.py", "service/*.py", "core/**/*.py")
        for path in package.glob(pattern)
        if path.name != "messages.py"
    )
    plain = [word for word in MESSAGES if "{" not in word]
    assert [word for word in plain if f"'{word}'" not in used and f'"{word}"' not in used] == []


def test_every_word_of_the_map_has_its_chinese() -> None:
    assert set(WORDS) <= MESSAGES.keys()


def test_every_reason_has_its_chinese_with_the_same_numbers() -> None:
    """Reasons are the templates of core's refusals: every text there with a number to fill in."""
    core = Path(l2_aistation.core.__file__).parent
    found = 0
    for path in core.rglob("*.py"):
        for text in reasons(path):
            assert text in MESSAGES, (path.name, text)
            assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", MESSAGES[text]))
            found += 1
    assert found >= 10


def reasons(path: Path) -> set[str]:
    """The sentences of a module with something to fill in, and those that a `Refusal` is made with."""
    texts: list[ast.expr] = []
    tree = ast.parse(path.read_text("utf-8"))
    pieces = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    pieces |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.BinOp) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in pieces and FILLED.fullmatch(str(node.value)):
            texts.append(node)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Refusal":
            texts += [argument for argument in node.args[1:2] if isinstance(argument, ast.Constant)]
    return {str(text.value) for text in texts if isinstance(text, ast.Constant)}


PAGES = ["/", "/jobs", "/queues", "/usage", "/usage?by=model&since=7d", "/faults"]


@pytest.mark.parametrize("path", [*PAGES, "/fragments/jobs?state=running&sort=job", "/fragments/queues"])
def test_pages_answer_in_both_languages(site: Any, path: str) -> None:
    headers = {**site.operator, "Accept": "text/html"}
    english = site.client.get(path, headers=headers)
    chinese = site.client.get(f"{path}{'&' if '?' in path else '?'}lang=zh", headers=headers)
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


def test_a_user_sees_no_buttons_for_another_s_job(site: Any, make_spec: Make) -> None:
    job = site.submit(make_spec("import time; time.sleep(60)"), site.red)
    site.until(job, "running")
    mine = site.client.get(f"/jobs/{job}", headers={**site.red, "Accept": "text/html"}).text
    tokens = TokenStore(site.service.settings.tokens_file)
    colleague = {"Authorization": f"Bearer {tokens.create('carl', 'red')}", "Accept": "text/html"}
    theirs = site.client.get(f"/jobs/{job}", headers=colleague)
    assert f"/jobs/{job}/cancel" in mine
    assert theirs.status_code == 200
    assert f"/jobs/{job}/cancel" not in theirs.text


def test_strangers_are_sent_to_the_login(site: Any) -> None:
    answer = site.client.get("/", headers={"Accept": "text/html"}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/")
