"""Crawls that end before they are done: a disk that is really full, an interrupt."""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from l3_ylink._kit.problems import Failed
from l3_ylink.datakit.gather.crawl.plan import parse_plan
from l3_ylink.datakit.gather.crawl.run import crawl

pytestmark = pytest.mark.real
for _name in ("scrapy", "protego", "warcio"):
    if importlib.util.find_spec(_name) is None:
        pytest.skip(f"needs {_name}: pip install 'l3-ylink[gather]'", allow_module_level=True)


@pytest.fixture
def site() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            rng = random.Random(self.path)
            links = "".join(f"<a href='/{number}'>x</a>" for number in range(40)) if self.path == "/" else ""
            body = f"<p>{rng.getrandbits(200_000):x}</p>{links}".encode()
            found = self.path != "/robots.txt"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body if found else b"")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", disk], capture_output=True
    )
    if not mounted or mounted.returncode != 0:
        pytest.skip("mounting a tmpfs needs root")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def test_a_full_disk_is_one_clear_error_and_the_crawl_goes_on_once_there_is_room(
    site: str, small_disk: Path
) -> None:
    plan = parse_plan({"seeds": [site], "private": True, "delay": 0})
    with pytest.raises(Failed, match="no space left") as caught:
        crawl(plan, small_disk / "out")
    assert "run the same command again" in str(caught.value)
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    made = crawl(plan, small_disk / "out")
    assert (made.number, made.finished, made.outcomes) == (1, True, {"new": 41})


def test_an_interrupt_ends_it_in_order_and_the_same_command_goes_on(site: str, tmp_path: Path) -> None:
    # a background job of a script starts with SIGINT ignored, and so would all that it starts
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{heed}; from l3_ylink.cli import main; main()"
    words = ["data", "gather", site, "--out", str(tmp_path / "out"), "--private", "--delay", "0.2"]
    with subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.DEVNULL) as process:
        while not list((tmp_path / "out").glob(".*.open")) and process.poll() is None:
            time.sleep(0.05)
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert len(list((tmp_path / "out").glob("*.warc.gz"))) == 1
    made = crawl(parse_plan({"seeds": [site], "private": True, "delay": 0}), tmp_path / "out")
    assert (made.number, made.outcomes) == (1, {"new": 41})
