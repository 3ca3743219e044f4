"""What the service weighs, and what its pages cost, at 10,000 accelerators.

A served platform (one process, SQLite) with 1,250 x 8 accelerators on paper, 100,000 jobs that are over
in its store and 10,000 that wait or run.  Its resident memory after start, after the pages were looked at
and after a report of usage over all of it; CPU of the service for each look and each live tick; time of
the browser for drawing the map.  No peer has such a page to measure beside: the bars are the issue's, and
our own for the rest.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from l2_aistation._kit.tokens import TokenStore
from l2_aistation.core.states import JobState
from l2_aistation.paper import PaperCluster, PaperEngine, fill, spec_of
from l2_aistation.service import Service, healing
from l2_aistation.service.platform import Platform
from l2_aistation.service.specs import check_spec
from l2_aistation.settings import Settings
from l2_aistation.store import Store, tables
from l2_aistation.web import create_app
from sqlalchemy import insert

NODES = 1250
HISTORY = int(os.environ.get("OGAI_BENCH_HISTORY", "100000"))
LIVE = int(os.environ.get("OGAI_BENCH_JOBS", "10000"))
DAY_S = 86_400.0
WATCHERS = 20


def make_history(settings: Settings) -> None:
    """Jobs that ran to their end over the last month, one attempt and its log each."""
    store = Store(settings.database)
    now = time.time()
    specs = [check_spec(spec_of(size, "default", "old", 3600)) for size in (1, 2, 4, 8)]
    first = now - 30 * DAY_S
    span = 30 * DAY_S / HISTORY
    with store.engine.begin() as connection:
        for start in range(0, HISTORY, 5000):
            rows = [row(number, first + number * span, specs) for number in range(start, start + 5000)]
            connection.execute(insert(tables.jobs), [item[0] for item in rows])
            connection.execute(insert(tables.attempts), [item[1] for item in rows])
            connection.execute(insert(tables.log), [entry for item in rows for entry in item[2]])
    store.close()


def row(number: int, at: float, specs: list[Any]) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    """A finished job, its attempt, and the entries of its log."""
    spec = specs[number % len(specs)]
    size = 1 << number % len(specs)
    name, tenant = f"old-{number:06d}", f"t{number % 12}"
    ends = at + 600 + number % 3600
    job = {
        "id": name,
        "tenant": tenant,
        "owner": f"user{number % 50}",
        "name": "old",
        "queue": "default",
        "priority": 0,
        "state": "completed",
        "attempt": 1,
        "spec": spec.text,
        "spec_digest": spec.digest,
        "submitted_at": at,
        "started_at": at + 30,
        "ended_at": ends,
        "cause": "completed",
        "why": "",
        "version": 4,
        "accelerators": size,
    }
    progress = {"started": [0], "exits": [], "stalls": [], "lost": [], "quiet": []}
    attempt = {
        "job": name,
        "number": 1,
        "state": "ended",
        "slots": json.dumps([["worker", f"n{number % NODES:04d}", 8000, 0, list(range(size))]]),
        "master_port": 29500,
        "created_at": at + 25,
        "started_at": at + 30,
        "ended_at": ends,
        "cause": "completed",
        "lost_steps": 0,
        "replaced": "{}",
        "progress": json.dumps({**progress, "fault_at": None, "held_at": None, "checkpoint_step": None}),
        "held": json.dumps({"H100": float(size)}),
        "version": 3,
    }
    log = [
        {"at": at, "tenant": tenant, "job": name, "attempt": 1, "kind": "state", "who": "x", "body": body}
        for body in ('{"from":"queued","to":"starting"}', '{"from":"running","to":"completed"}')
    ]
    return job, attempt, log


def serve(home: str, port: int) -> None:
    """The service in this process; the live jobs are submitted once it runs."""
    import threading

    import uvicorn

    settings = Settings.load(home=Path(home), node_lost_s=60, start_limit_s=36_000)
    cluster = PaperCluster(NODES)
    engine = PaperEngine.of(cluster)
    app = create_app(settings, service=lambda one: Service(one, make=engine.make, source=cluster))

    def later() -> None:
        while app.state.service is None or not app.state.service.platform.world.pool.up.all():
            time.sleep(0.2)
        service = app.state.service
        fill(service, LIVE)
        Path(home, "filled").touch()
        while service.alive:
            time.sleep(1.0)
            if Path(home, "changing").exists():  # five jobs a second end, others start
                service.call(end_some)

    threading.Thread(target=later, daemon=True).start()
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", access_log=False, ws="none")


def end_some(platform: Platform) -> None:
    """Five running jobs complete."""
    running = [job for job in platform.world.jobs.values() if job.state is JobState.RUNNING]
    for job in running[:5]:
        healing.finish(platform, job, platform.attempts[job.id])


def rss_mb(pid: int, field: str = "VmRSS") -> float:
    """Resident memory of a process (or its peak, VmHWM) in MB of a million bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024 / 1e6
    raise SystemExit(f"{field} is not in /proc/{pid}/status")


def cpu_s(pid: int) -> float:
    """CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bench:
    """The running service and what is measured of it."""

    def __init__(self, pid: int, url: str, token: str, changing: Path) -> None:
        self.pid = pid
        self.http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=120)
        self.idle = 0.0
        self.changing = changing

    def rest(self, seconds: float = 10.0) -> None:
        """Learns what the service uses while nobody asks for anything: cycles, commits."""
        before, began = cpu_s(self.pid), time.perf_counter()
        time.sleep(seconds)
        self.idle = (cpu_s(self.pid) - before) / (time.perf_counter() - began)

    def settle(self, most_s: float = 120.0) -> None:
        """Waits until what the many submissions set off is decided."""
        end = time.monotonic() + most_s
        while time.monotonic() < end:
            self.rest(3.0)
            if self.idle < 0.1:
                return

    def cpu_ms(self, work: Callable[[], object], times: int) -> float:
        """CPU of the service for one `work`, beyond what it uses anyway."""
        before, began = cpu_s(self.pid), time.perf_counter()
        for _ in range(times):
            work()
        wall = time.perf_counter() - began
        return max(cpu_s(self.pid) - before - self.idle * wall, 0.0) / times * 1e3

    def get(self, path: str) -> int:
        """Fetches a page; the bytes it has."""
        answer = self.http.get(path, headers={"Accept": "text/html"})
        assert answer.status_code == 200, (path, answer.status_code)
        return len(answer.content)

    def watched(self, seconds: float) -> float:
        """CPU of the service in a second while browsers watch the map (each a stream of ticks)."""
        streams = [self.http.stream("GET", "/live/events?topic=pool") for _ in range(WATCHERS)]
        opened = [stream.__enter__() for stream in streams]
        time.sleep(2)
        before, began = cpu_s(self.pid), time.perf_counter()
        time.sleep(seconds)
        used = (cpu_s(self.pid) - before) / (time.perf_counter() - began)
        for answer in opened:
            answer.close()
        return max(used - self.idle, 0.0) * 1e3


def drawn(url: str, token: str) -> tuple[float, float] | None:
    """Milliseconds that Chromium takes for the first picture of the map, and for a tick; None without it."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if chromium is None:
        return None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.add_cookies([{"name": "ogai_token", "value": token, "url": url}])
        page = context.new_page()
        page.goto(f"{url}/")
        page.wait_for_selector("#pool[data-ready=yes]", timeout=60_000)
        node = f"n{NODES - 1:04d}"
        for verb in ("cordon", "uncordon"):
            address = f"{url}/api/v1/nodes/{node}/{verb}"
            httpx.post(address, headers={"Authorization": f"Bearer {token}"}, timeout=120)
            page.wait_for_timeout(2500)
        first = float(page.get_attribute("#pool", "data-draw-ms"))
        tick = page.get_attribute("#pool", "data-tick-ms")
        browser.close()
    return first, float(tick or "nan")


def measure() -> list[dict[str, Any]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as home:
        settings = Settings.load(home=Path(home))
        make_history(settings)
        token = TokenStore(settings.tokens_file).admin_token()
        server = subprocess.Popen([sys.executable, __file__, "--serve", home, str(port)])
        try:
            url = f"http://127.0.0.1:{port}"
            end = time.monotonic() + 900
            while not Path(home, "filled").exists():
                assert time.monotonic() < end, "the jobs were not taken in"
                assert server.poll() is None, "the service ended"
                time.sleep(0.5)
            return rows(Bench(server.pid, url, token, Path(home, "changing")), url, token)
        finally:
            server.kill()
            server.wait()


def rows(bench: Bench, url: str, token: str) -> list[dict[str, Any]]:
    size = f"{NODES} x 8, {HISTORY} jobs in history, {LIVE} live"
    bench.settle()
    found: list[dict[str, Any]] = []

    def add(name: str, ours: float, unit: str, bar: float, how: str) -> None:
        found.append(
            {
                "layer": "l2",
                "name": name,
                "ours": round(ours, 2),
                "peer": "none: the bar is the issue's, or our own",
                "peer_version": "",
                "ratio": round(ours / bar, 3),
                "unit": unit,
                "how": f"{how}; {size}",
                "bar": bar,
                "ok": ours <= bar,
            }
        )

    filled = rss_mb(bench.pid)
    looks = (
        ("list of jobs, first page", "/jobs", 10, 150.0),
        ("list of jobs, searched and sorted", "/jobs?text=old&sort=-accelerators&page=40", 5, 500.0),
        ("list's fragment, seen by others too", "/fragments/jobs", 20, 30.0),
        ("map, everything", "/live/pool", 10, 60.0),
        ("queues", "/queues", 10, 100.0),
    )
    for name, path, times, bar in looks:
        bytes_ = bench.get(path)
        spent = bench.cpu_ms(partial(bench.get, path), times)
        add(f"page: {name}", spent, "ms of CPU a look", bar, f"GET {path}, {bytes_} bytes")
    began = cpu_s(bench.pid)
    bench.get("/usage?since=30d&by=user")
    add("page: usage of a month by user", (cpu_s(bench.pid) - began) * 1e3, "ms of CPU", 8000.0, "one look")
    bench.changing.touch()
    bench.rest(20)
    spent = bench.watched(20)
    add(
        f"{WATCHERS} browsers on the map",
        spent,
        "ms of CPU a second",
        100.0,
        "SSE, one shared board, five jobs a second end",
    )
    picture = drawn(url, token)
    if picture is not None:
        add("map in Chromium: first picture", picture[0], "ms", 300.0, "layout, 10,000 cells, canvas")
        add("map in Chromium: a tick", picture[1], "ms", 50.0, "parse, changed rows, figures")
    how = f"VmRSS after all of the above ({filled:.0f} MB before), peak {rss_mb(bench.pid, 'VmHWM'):.0f} MB"
    add("memory of the service", rss_mb(bench.pid), "MB", 500.0, how)
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        print(json.dumps(measure(), indent=1))
