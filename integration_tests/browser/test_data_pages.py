"""The data pages and the funnel report in a real Chromium, in both languages: a slider is moved, documents
are looked through, nothing is broken or cut.  Screenshots stay in test-artefacts/browser/."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from l3_ylink._kit.tokens import TokenStore
from l3_ylink.api import Settings, Shelf, create_app, run_recipe
from l3_ylink.datakit.recipe import load_recipe
from l3_ylink.datakit.recipes import shipped

ROOT = Path(__file__).resolve().parent.parent.parent
ARTEFACTS = ROOT / "test-artefacts" / "browser"
PROBE = (Path(__file__).with_name("probe.js")).read_text()
DATA = ROOT / "integration_tests" / "demo" / "data"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE_MS = 60_000

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Path]]:
    """A served MDFS run over the demo's data: its address, the operator's token, its folder."""
    place = tmp_path_factory.mktemp("data-pages")
    run_recipe(load_recipe(shipped()["mdfs"]), input_folder=DATA, out=place / "out")
    home = Settings.load(home=place / "home")
    Shelf(home.state_dir).add(kind="data", name="mdfs", path=place / "out", tenant="system")
    token = TokenStore(home.tokens_file).admin_token()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(
        uvicorn.Config(create_app(home), host="127.0.0.1", port=port, log_level="warning")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the pages did not start"
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}", token, place / "out"
    server.should_exit = True
    thread.join(timeout=20)


def looked_at(page: Any, name: str, faults: list[str]) -> None:
    """Notes what a person would see wrong, and takes a picture."""
    page.wait_for_timeout(500)
    faults += [f"{name}: {fault}" for fault in page.evaluate(PROBE)]
    target = ARTEFACTS / f"{name}.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(target), full_page=True)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_data_pages(site: tuple[str, str, Path], language: str) -> None:
    from playwright.sync_api import sync_playwright

    url, token, out = site
    faults: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        page = browser.new_context(
            viewport={"width": 1280, "height": 900}, locale="zh-CN" if language == "zh" else "en-US"
        ).new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: faults.append(f"{page.url}: {error}"))
        page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
        page.goto(f"{url}/login")
        page.fill("#token", token)
        page.click("main button.primary")
        page.wait_for_url(f"{url}/")
        page.goto(f"{url}/data?lang={language}")
        page.click("table a")
        dial = page.locator("fieldset.dial", has=page.locator("input[name$='en.min_units']"))
        share = dial.locator("output").inner_text()
        dial.locator("input[type=range]").focus()
        for _ in range(40):
            page.keyboard.press("ArrowRight")
        assert dial.locator("output").inner_text() != share  # at once, from the curve
        page.wait_for_selector("#whatif .sample")  # then the funnel and samples, from the server
        page.wait_for_selector("#cost dl")
        looked_at(page, f"{language}/l3_dials", faults)
        page.goto(f"{page.url.partition('?')[0]}/look?by=dropped&lang={language}")
        page.click("a[rel=next]")
        assert page.locator(".sides pre").count() == 2
        looked_at(page, f"{language}/l3_look", faults)
        page.goto(f"file://{out / 'report.html'}")
        if language == "zh":
            page.check("#zh")
        assert page.locator(f"h1 ~ p [lang={language}]").first.is_visible()
        looked_at(page, f"{language}/l3_report", faults)
        browser.close()
    assert not faults, "\n".join(sorted(set(faults)))
