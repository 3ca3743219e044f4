"""Every page of the console in a real Chromium, in both languages: nothing broken, cut or on top of
something else.  Screenshots stay in test-artefacts/browser/."""

from __future__ import annotations

import re
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
import uvicorn
from l2_aistation._kit.tokens import TokenStore

from integration_tests.console.app import create_console

ROOT = Path(__file__).resolve().parent.parent.parent
ARTEFACTS = ROOT / "test-artefacts" / "browser"
PROBE = (Path(__file__).with_name("probe.js")).read_text()
MOST_PAGES = 80
#: Pages that are not ours to lay out, or that end the session.
LEFT_OUT = ("/live/", "/api/", "/openapi.json", "/healthz", "/logout", "/static/", "/assets/", "/metrics")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


@pytest.fixture(scope="module")
def console(demo_home: Path) -> Iterator[str]:
    """The console over the state that a demo left behind."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = uvicorn.Config(create_console(demo_home), host="127.0.0.1", port=port, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the console did not start"
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(timeout=20)


def note_error(message: Any, faults: list[str]) -> None:
    """Keeps what the page writes to the console as an error."""
    if message.type == "error":
        faults.append(f"{message.location.get('url')}: {message.text}")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_page(console: str, demo_home: Path, language: str) -> None:
    from playwright.sync_api import sync_playwright

    token = TokenStore(demo_home / "tokens.json").admin_token()
    faults: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-quic"],
        )
        page = browser.new_context(
            viewport={"width": 1280, "height": 900}, locale="zh-CN" if language == "zh" else "en-US"
        ).new_page()
        page.on("console", lambda message: note_error(message, faults))
        page.on("pageerror", lambda error: faults.append(f"{page.url}: {error}"))
        page.goto(f"{console}/login")
        page.fill("#token", token)
        page.click("main button.primary")
        page.wait_for_url(f"{console}/")
        queue, seen = [f"{console}/"], {f"{console}/"}
        for url in queue:
            answer = page.goto(url, wait_until="load")
            status = answer.status if answer else None
            if status != 200:
                faults.append(f"{url}: HTTP {status}")
            page.wait_for_timeout(250)  # fragments and plots that load after the page
            faults += [f"{url}: {fault}" for fault in page.evaluate(PROBE)]
            path = urlsplit(url).path.strip("/").replace("/", "_") or "start"
            target = ARTEFACTS / language / f"{path[:100]}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=str(target), full_page=True)
            for href in page.eval_on_selector_all(
                "a[href]", "links => links.map(a => a.getAttribute('href'))"
            ):
                found = re.sub(r"[?&]lang=\w+", "", urljoin(url, href).split("#")[0])
                inside = found.startswith(f"{console}/") and not any(part in found for part in LEFT_OUT)
                inside = inside and "?" not in found  # the same page, sorted or filtered otherwise
                if (
                    inside
                    and found not in seen
                    and len(seen) < MOST_PAGES
                    and not Path(urlsplit(found).path).suffix
                ):
                    seen.add(found)
                    queue.append(found)
        browser.close()
    layers = {urlsplit(url).path.split("/")[1] for url in seen}
    assert {"l0", "l1", "l2", "l3", "l4"} <= layers
    assert not faults, "\n".join(sorted(set(faults)))
