"""The pages in a real Chromium over 1,250 nodes of eight accelerators: drawn, live, by keyboard, in both
languages and in a narrow window.  Screenshots stay in test-artefacts/aistation/ of the repository."""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from l2_aistation._kit.tokens import TokenStore
from l2_aistation.core.events import Event, TaskExited
from l2_aistation.core.states import JobState
from l2_aistation.paper import PaperCluster, PaperEngine, fill
from l2_aistation.service import Service
from l2_aistation.settings import Settings
from l2_aistation.web import create_app

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
NODES = 1250
JOBS = 10_000 if os.environ.get("OGAI_SOAK") == "1" else 1500
ROOT = Path(__file__).resolve().parents[4]
PROBE = ROOT / "integration_tests" / "browser" / "probe.js"
ARTEFACTS = ROOT / "test-artefacts" / "aistation" if PROBE.exists() else None


@dataclass
class Shown:
    """A served platform of paper, and what talks to it."""

    url: str
    service: Service
    engine: PaperEngine
    tokens: dict[str, str]

    def get(self, path: str, who: str = "operator") -> Any:
        headers = {"Authorization": f"Bearer {self.tokens[who]}"}
        answer = httpx.get(self.url + path, headers=headers, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def finish(self, job: str) -> None:
        """Every rank of a running job ends with 0."""
        slots = self.service.call(lambda platform: platform.attempts[job].slots)
        number = self.service.call(lambda platform: platform.attempts[job].number)
        events: list[Event] = [
            TaskExited(job, number, slot.node, slot.rank, time.time(), code=0) for slot in slots
        ]
        self.service.sink(events)

    def running(self) -> list[str]:
        return self.service.call(
            lambda platform: [job.id for job in platform.world.jobs.values() if job.state is JobState.RUNNING]
        )


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    home = tmp_path_factory.mktemp("paper")
    settings = Settings.load(home=home, node_lost_s=30, start_limit_s=3600)
    cluster = PaperCluster(NODES)
    engine = PaperEngine.of(cluster)
    app = create_app(settings, service=lambda one: Service(one, make=engine.make, source=cluster))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = uvicorn.Config(
        app, host="127.0.0.1", port=port, log_level="warning", ws="none", timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the service did not start"
        time.sleep(0.05)
    service: Service = app.state.service
    store = TokenStore(settings.tokens_file)
    tokens = {"operator": store.admin_token(), "ann": store.create("ann", "red")}
    one = Shown(f"http://127.0.0.1:{port}", service, engine, tokens)
    while one.get("/api/v1/pool")["up"] < NODES:
        time.sleep(0.2)
    fill(service, JOBS)
    for node in ("n0100", "n0101", "n0733"):
        httpx.post(
            f"{one.url}/api/v1/nodes/{node}/cordon",
            json={"reason": "NIC errors"},
            headers={"Authorization": f"Bearer {tokens['operator']}"},
        )
    yield one
    server.should_exit = True
    thread.join(timeout=30)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-quic"],
        )
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium: Any, shown: Shown) -> Iterator[Any]:
    context = opened(chromium, shown)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    yield page
    context.close()
    assert not faults


def opened(chromium: Any, shown: Shown, *, who: str = "operator", **options: Any) -> Any:
    """A browser context that is signed in."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, **options)
    context.add_cookies([{"name": "ogai_token", "value": shown.tokens[who], "url": shown.url}])
    return context


def open_map(page: Any, shown: Shown) -> None:
    page.goto(f"{shown.url}/")
    page.wait_for_selector("#pool[data-ready=yes]", timeout=60_000)


def until(holds: Callable[[], bool], page: Any, timeout_s: float = 20) -> None:
    """Waits for something on the page; in Python, as the pages allow no `eval`."""
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, "it did not come to be"
        page.wait_for_timeout(100)


def figure(page: Any, name: str) -> int:
    return int(page.text_content(f"[data-figure={name}]").replace(",", ""))


def test_the_map_says_what_the_service_says(tab: Any, shown: Shown) -> None:
    open_map(tab, shown)
    tab.wait_for_timeout(1500)
    pool = shown.get("/api/v1/pool")
    cards = [card for node in pool["nodes"] for card in node["accelerators"]]
    assert figure(tab, "of") == len(cards) == NODES * 8
    assert figure(tab, "held") == sum(card["job"] is not None for card in cards)
    assert figure(tab, "cordoned") == pool["cordoned"] >= 3
    assert figure(tab, "spare") == pool["spares"]
    legend = dict(
        tab.eval_on_selector_all(
            "#legend button",
            "all => all.map(b => [b.dataset.group, +b.querySelector('b').textContent.replaceAll(',', '')])",
        )
    )
    by_root: dict[str, int] = {}
    for card in cards:
        name = str(card["queue"] or "free").partition("-")[0]
        by_root[name] = by_root.get(name, 0) + 1
    assert legend == by_root
    # every kind of cell was painted: the colours of the legend are in the picture
    painted = tab.evaluate(
        """() => { const c = document.getElementById('map'); const seen = new Set();
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        for (let i = 0; i < d.length; i += 4) if (d[i + 3]) seen.add(`rgb(${d[i]}, ${d[i+1]}, ${d[i+2]})`);
        return [...document.querySelectorAll('#legend i')].every(
          e => seen.has(getComputedStyle(e).backgroundColor)); }"""
    )
    assert painted


def test_a_change_reaches_the_map_and_only_the_change_is_sent(tab: Any, shown: Shown) -> None:
    sent: list[int] = []
    open_map(tab, shown)
    tab.wait_for_timeout(2500)
    job = shown.running()[0]
    with httpx.stream(
        "GET",
        f"{shown.url}/live/events?topic=pool&since={shown.get('/live/pool')['frame']['v']}",
        headers={"Authorization": f"Bearer {shown.tokens['operator']}"},
        timeout=30,
    ) as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith(":")
        ticks = int(tab.get_attribute("#pool", "data-ticks") or 0)
        shown.finish(job)
        for line in lines:
            if line.startswith("data: "):
                sent.append(len(line))
                break
    until(lambda: int(tab.get_attribute("#pool", "data-ticks") or 0) > ticks, tab)
    assert sent[0] < len(json.dumps(shown.get("/live/pool"))) / 3
    assert float(tab.get_attribute("#pool", "data-tick-ms")) < 250


def test_the_map_by_keyboard(tab: Any, shown: Shown) -> None:
    open_map(tab, shown)
    tab.focus("#map")
    tab.keyboard.press("ArrowDown")
    tip = tab.locator("#tip")
    assert "n0000" in tip.inner_text()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        tab.keyboard.press(key)
    assert "n0002" in tip.inner_text()
    assert "H100 1" in tip.inner_text()
    tab.keyboard.press("PageDown")
    assert "leaf01" in tip.inner_text()
    tab.keyboard.press("Enter")
    assert tab.locator("#details-name").inner_text() == "n0034"
    tab.keyboard.press("Escape")
    assert tab.locator("#details").is_hidden()


def test_the_table_says_the_same_and_finds(tab: Any, shown: Shown) -> None:
    open_map(tab, shown)
    tab.locator("input[name=view][value=table]").check()
    assert tab.locator("#node-rows tr").count() == 50
    assert tab.locator("#nodes-where").inner_text() == f"1–50 of {NODES}"
    tab.fill("#find", "n0733")
    row = tab.locator("#node-rows tr")
    assert row.count() == 1
    assert "cordoned NIC errors" in row.inner_text()


def test_an_operator_cordons_from_the_map(tab: Any, shown: Shown) -> None:
    open_map(tab, shown)
    tab.focus("#map")
    tab.keyboard.press("End")
    tab.keyboard.press("Enter")
    tab.locator("#details-form button").click()
    tab.wait_for_selector("#pool[data-ready=yes]")
    assert shown.get("/api/v1/pool")["nodes"][NODES - 1]["state"] == "cordoned"


def test_a_tenant_s_map_names_nobody_else_s_jobs(chromium: Any, shown: Shown) -> None:
    mine = {job["id"] for job in shown.get("/api/v1/jobs?limit=10000", "ann")}
    frame = shown.get("/live/pool", "ann")["frame"]
    assert frame["jobs"]
    assert {job[0] for job in frame["jobs"].values()} <= mine
    context = opened(chromium, shown, who="ann")
    page = context.new_page()
    open_map(page, shown)
    assert "another tenant" in page.locator("#legend").inner_text()
    context.close()


def test_the_list_sorts_searches_and_turns_pages(tab: Any, shown: Shown) -> None:
    tab.goto(f"{shown.url}/jobs")
    assert tab.locator("#job-list tbody tr").count() == 50
    tab.get_by_role("link", name="Accelerators").click()
    tab.get_by_role("link", name="Accelerators").click()
    assert "sort=-accelerators" in tab.url
    sizes = [int(text) for text in tab.locator("#job-list tbody tr td:nth-child(7)").all_inner_texts()]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 256
    tab.get_by_role("link", name="Next").click()
    assert "51–100" in tab.locator(".pager").inner_text()
    tab.fill("#text", "pretrain ann")
    until(lambda: "text=" in tab.url, tab)
    names = tab.locator("#job-list tbody tr td:first-child").all_inner_texts()
    assert names
    assert all(name.startswith("pretrain-") for name in names)
    tab.select_option("select[name=state]", "queued")
    until(lambda: "state=queued" in tab.url, tab)
    notes = tab.locator("#job-list tbody tr td.note").all_inner_texts()
    assert notes
    assert all(notes)  # each says why it waits


def test_the_list_follows_by_itself(tab: Any, shown: Shown) -> None:
    tab.goto(f"{shown.url}/jobs?state=running&sort=submitted")
    first = tab.locator("#job-list tbody tr td:first-child").first.inner_text()
    tab.wait_for_timeout(1500)
    shown.finish(first)
    until(lambda: first not in tab.locator("#job-list").inner_text(), tab)


def test_what_if_answers_on_the_page(tab: Any, shown: Shown) -> None:
    queued = shown.get("/api/v1/jobs?state=queued&limit=1")[0]["id"]
    tab.goto(f"{shown.url}/jobs/{queued}")
    tab.fill("input[name=nodes]", "400")
    tab.locator("form[hx-post*='what-if'] button").click()
    until(lambda: tab.locator("#what-if .badge").count() == 1, tab)
    assert "starts" in tab.locator("#what-if").inner_text()


def test_a_watching_browser_costs_the_service_little(tab: Any, shown: Shown) -> None:
    open_map(tab, shown)
    with suppress(AssertionError):
        tab.wait_for_timeout(3000)
    before, began = time.process_time(), time.perf_counter()
    tab.wait_for_timeout(5000)
    quiet = (time.process_time() - before) / (time.perf_counter() - began)
    assert quiet < 0.5  # of one core, browser's driver and scheduler included


PAGES = ("/", "/jobs", "/jobs?state=running&sort=-accelerators", "/queues", "/usage?by=queue", "/faults")


@pytest.mark.skipif(not PROBE.exists(), reason="integration_tests/browser/probe.js is not here")
@pytest.mark.parametrize(("language", "width"), [("en", 1280), ("zh", 1280), ("en", 390)])
def test_nothing_is_cut_or_on_top_of_something_else(
    chromium: Any, shown: Shown, language: str, width: int
) -> None:
    locale = "zh-CN" if language == "zh" else "en-US"
    context = chromium.new_context(viewport={"width": width, "height": 900}, locale=locale)
    context.add_cookies([{"name": "ogai_token", "value": shown.tokens["operator"], "url": shown.url}])
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.extend([message.text] if message.type == "error" else []))
    page.on("pageerror", lambda error: faults.append(str(error)))
    queued = shown.get("/api/v1/jobs?state=queued&limit=1")[0]["id"]
    paths = [*PAGES, f"/jobs/{queued}", f"/jobs/{shown.running()[0]}"]
    for number, path in enumerate(paths):
        page.goto(f"{shown.url}{path}")
        page.wait_for_timeout(1200)
        faults += [f"{path}: {fault}" for fault in page.evaluate(PROBE.read_text("utf-8"))]
        if ARTEFACTS is not None:
            name = ("pool", "jobs", "jobs-by-size", "queues", "usage", "faults", "job-queued", "job-running")
            target = ARTEFACTS / f"{language}-{width}" / f"{name[number]}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=str(target), full_page=True)
    page.goto(f"{shown.url}/")
    page.wait_for_selector("#pool[data-ready=yes]")
    page.locator("input[name=colour][value=health]").check(force=True)
    if ARTEFACTS is not None:
        page.screenshot(path=str(ARTEFACTS / f"{language}-{width}" / "pool-health.png"), full_page=True)
    context.close()
    assert not faults, "\n".join(faults)
