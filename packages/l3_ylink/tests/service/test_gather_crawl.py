"""The crawler against sites of our own on loopback: rules, pace, traps, budgets, re-crawls, kills."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from l3_ylink._kit.problems import BadInput, Conflict
from l3_ylink.datakit.gather.crawl.plan import parse_plan
from l3_ylink.datakit.gather.crawl.run import Crawl, crawl

for _name in ("scrapy", "protego", "warcio"):
    if importlib.util.find_spec(_name) is None:
        pytest.skip(f"needs {_name}: pip install 'l3-ylink[gather]'", allow_module_level=True)

SOAK = bool(os.environ.get("OGAI_SOAK"))
ENDLESS = -1


NO_HEADERS: dict[str, str] = {}


class Reply(NamedTuple):
    """What a page of the site answers; a `length` of ENDLESS sends the body until the client leaves."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = NO_HEADERS
    length: int | None = None
    wait: float = 0.0


Pages = Callable[[str, dict[str, str]], Reply | None]


class Site:
    """A web site on a loopback address that remembers who asked for what, and when."""

    def __init__(self, pages: Pages, host: str = "127.0.0.1") -> None:
        self.asked: list[tuple[float, str, dict[str, str]]] = []
        self.sent: dict[str, int] = {}
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                site.asked.append((time.monotonic(), self.path, headers))
                reply = pages(self.path, headers) or Reply(b"not here", 404)
                with contextlib.suppress(OSError):
                    site.answer(self, reply)

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                pass  # a crawler that was killed left in the middle

        self.server = Server((host, 0), Handler)
        self.url = f"http://{host}:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        time.sleep(reply.wait)
        handler.send_response(reply.status)
        for name, value in {"Content-Type": "text/html", **reply.headers}.items():
            handler.send_header(name, value)
        length = 10_000_000_000 if reply.length == ENDLESS else len(reply.body)
        if reply.status != 304:
            handler.send_header("Content-Length", str(length))
        handler.end_headers()
        self.sent[handler.path] = 0
        while self.sent[handler.path] < length:
            handler.wfile.write(reply.body)
            self.sent[handler.path] += len(reply.body)

    def paths(self) -> list[str]:
        return [path for _, path, _ in self.asked]

    def gaps(self) -> list[float]:
        times = [moment for moment, _, _ in self.asked]
        return [after - before for before, after in itertools.pairwise(times)]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def sites() -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def make(pages: Pages, host: str = "127.0.0.1") -> Site:
        made.append(Site(pages, host))
        return made[-1]

    yield make
    for site in made:
        site.close()


def html(*links: str, text: str = "", head: str = "") -> Reply:
    shown = "".join(f'<a href="{link}">go</a> ' for link in links)
    return Reply(f"<html><head>{head}</head><body><p>{text}</p>{shown}</body></html>".encode())


def spelt(name: str) -> str:
    """Another word for each number: pages that differ in numbers alone are a trap."""
    return name.translate(str.maketrans("0123456789", "abcdefghij"))


def fixed(pages: dict[str, Reply]) -> Pages:
    return lambda path, _headers: pages.get(path)


def gather(seeds: list[str], out: Path, **more: Any) -> Crawl:
    return crawl(parse_plan({"seeds": seeds, "private": True, "delay": 0, **more}), out)


def records(made: Crawl) -> list[tuple[str, str, str, bytes, Any]]:
    """Type, address, status, payload and headers of every record; each digest is checked."""
    from warcio.archiveiterator import ArchiveIterator

    found = []
    for file in made.files:
        with open(file, "rb") as stream:
            for record in ArchiveIterator(stream, check_digests="raise"):
                status = record.http_headers.get_statuscode() if record.http_headers else ""
                uri = record.rec_headers.get_header("WARC-Target-URI") or ""
                found.append(
                    (record.rec_type, uri, status, record.content_stream().read(), record.rec_headers)
                )
    return found


def host_row(made: Crawl, site: Site) -> dict[str, Any]:
    return next(row for row in made.hosts if row["host"] == site.url)


def test_a_crawl_takes_what_it_may_and_writes_it_as_standard_warc(
    tmp_path: Path, sites: Callable[..., Site]
) -> None:
    packed = gzip.compress(html("/deep", text="packed").body)
    site = sites(
        fixed(
            {
                "/robots.txt": Reply(
                    b"User-agent: ylink\nDisallow: /no\nAllow: /no/yes\nSitemap: /map.xml\n\n"
                    b"User-agent: *\nDisallow: /\n"
                ),
                "/": html(
                    "/a",
                    "/no/x",
                    "/no/yes",
                    "/a#part",
                    "/a?PHPSESSID=1",
                    "mailto:a@b.c",
                    "http://other.example/",
                ),
                "/a": Reply(packed, headers={"Content-Encoding": "gzip"}),
                "/no/yes": html(
                    "/hidden", text="allowed below", head='<meta name="robots" content="nofollow">'
                ),
                "/deep": html(text="the end"),
                "/map.xml": Reply(
                    b"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url><loc>/from-map</loc></url></urlset>"
                ),
                "/from-map": Reply(
                    "中文".encode("gb18030"), headers={"Content-Type": "text/html; charset=gb2312"}
                ),
            }
        )
    )
    made = gather([f"{site.url}/"], tmp_path / "out", contact="mailto:data@example.org")
    assert made.finished
    assert sorted(site.paths()) == ["/", "/a", "/deep", "/from-map", "/map.xml", "/no/yes", "/robots.txt"]
    assert {headers["user-agent"] for _, _, headers in site.asked} == {
        f"ylink/{importlib.import_module('l3_ylink').__version__} (+mailto:data@example.org)"
    }
    assert made.outcomes == {"new": 6, "robots": 1}
    assert made.refused["other_domain"] == {"count": 1, "sample": ["http://other.example/"]}
    found = records(made)
    assert [kind for kind, *_ in found][:1] == ["warcinfo"]
    answers = {
        uri.removeprefix(site.url): payload for kind, uri, _, payload, _ in found if kind == "response"
    }
    assert len(answers) == 7
    assert answers["/from-map"].decode("gb18030") == "中文"
    assert b"packed" in answers["/a"]  # warcio takes the coding off; the file holds it as it came
    raw = gzip.decompress(made.files[0].read_bytes())
    assert packed in raw
    requests = [about for kind, _, _, _, about in found if kind == "request"]
    assert len(requests) == 7
    assert all(about.get_header("WARC-Concurrent-To") for about in requests)


def test_between_two_requests_lies_the_longest_of_all_delays_for_each_host_alone(
    tmp_path: Path, sites: Callable[..., Site]
) -> None:
    """scrapy#892, scrapy#5687: robots.txt is obeyed, its Crawl-delay is not."""

    def paced(robots: bytes) -> Pages:
        names = {f"/{number}": html(text=str(number)) for number in range(4)}
        return fixed({"/robots.txt": Reply(robots), "/": html(*names), **names})

    theirs = sites(paced(b"User-agent: *\nCrawl-delay: 0.5\n"))
    ours = sites(paced(b"User-agent: *\nCrawl-delay: 0.01\n"))
    rate = sites(paced(b"User-agent: *\nRequest-rate: 2/1s\nCrawl-delay: 0.1\n"))
    none = sites(lambda path, _: paced(b"")(path, {}) if path != "/robots.txt" else None)
    named = sites(paced(b"User-agent: *\nCrawl-delay: 30\n\nUser-agent: ylink\nCrawl-delay: 0.3\n"))
    every = [theirs, ours, rate, none, named]
    made = gather([f"{site.url}/" for site in every], tmp_path / "out", delay=0.2)
    assert made.finished
    wanted = {theirs.url: 0.5, ours.url: 0.2, rate.url: 0.5, none.url: 0.2, named.url: 0.3}
    for site in every:
        assert len(site.asked) == 6
        assert sum(site.gaps()) >= 5 * wanted[site.url] * 0.95
        assert min(site.gaps()) >= wanted[site.url] / 2  # a late arrival makes the next gap shorter
        row = host_row(made, site)
        assert row["delay"] == pytest.approx(wanted[site.url])
        assert row["delay_of"] == ("own" if wanted[site.url] == 0.2 else "robots.txt")


def test_a_host_whose_robots_txt_is_in_trouble_is_left_alone_and_one_without_is_not(
    tmp_path: Path, sites: Callable[..., Site]
) -> None:
    """RFC 9309, 2.3.1: unavailable means allowed, unreachable disallowed; redirects are followed."""
    broken = sites(fixed({"/robots.txt": Reply(b"", 503), "/": html(text="broken")}))
    busy = sites(fixed({"/robots.txt": Reply(b"", 429), "/": html(text="busy")}))
    absent = sites(fixed({"/": html(text="absent")}))
    hidden = sites(fixed({"/robots.txt": Reply(b"", 403), "/": html(text="hidden")}))
    moved = sites(
        fixed(
            {
                "/robots.txt": Reply(b"", 301, {"Location": "/rules"}),
                "/rules": Reply(b"User-agent: *\nDisallow: /no"),
                "/": html("/no", "/yes"),
                "/yes": html(text="yes"),
            }
        )
    )
    away = sites(fixed({"/robots.txt": Reply(b"", 301, {"Location": "http://other.example/robots.txt"})}))
    odd = sites(fixed({"/robots.txt": Reply(b"\xff\xfe\x00binary\x00" * 9), "/": html(text="odd")}))
    every = [broken, busy, absent, hidden, moved, away, odd]
    made = gather([f"{site.url}/" for site in every], tmp_path / "out", retries=0)
    assert broken.paths() == busy.paths() == away.paths() == ["/robots.txt"]
    assert host_row(made, broken)["left_for"] == "robots.txt answered 503"
    assert "outside of the domains" in host_row(made, away)["left_for"]
    assert absent.paths() == hidden.paths() == odd.paths() == ["/robots.txt", "/"]
    assert moved.paths() == ["/robots.txt", "/rules", "/", "/yes"]


def test_traps_end_by_themselves(tmp_path: Path, sites: Callable[..., Site]) -> None:
    def pages(path: str, _headers: dict[str, str]) -> Reply | None:
        if path == "/":
            return html("/calendar?day=1", "/s/0/list", "/a/", "/loop", "/ping", "/docs/0", text="home")
        if path.startswith("/calendar"):
            day = int(path.partition("day=")[2])
            return html(f"/calendar?day={day + 1}", text=f"nothing on day {day}")
        if path.startswith("/s/"):  # the session's name in the path, another one on each page
            return html(f"/s/{random.randrange(16**12):012x}f00d/list", text="a list")
        if path.startswith("/a/"):
            return html("a/", text="relative links to nowhere")
        if path == "/loop":
            return Reply(b"", 302, {"Location": "/loop"})
        if path in ("/ping", "/pong"):
            return Reply(b"", 302, {"Location": "/pong" if path == "/ping" else "/ping"})
        if path.startswith("/hop"):
            return Reply(b"", 302, {"Location": f"/hop{int(path[4:]) + 1}"})
        if path.startswith("/docs/"):  # a real chapter each, though numbered as well
            number = int(path[6:])
            words = " ".join(random.Random(number).choices(["tide", "moon", "ebb", "sand", "gull"], k=40))
            return html(f"/docs/{number + 1}", text=words) if number < 60 else html("/hop0", text="last")
        return None

    site = sites(pages)
    made = gather([f"{site.url}/"], tmp_path / "out")
    assert made.finished
    paths = site.paths()
    assert sum(path.startswith("/docs/") for path in paths) == 61
    assert sum(path.startswith("/calendar") for path in paths) <= 30
    assert sum(path.startswith("/s/") for path in paths) <= 30
    assert sum(path.startswith("/a/") for path in paths) <= 5
    assert paths.count("/loop") == 1
    assert (paths.count("/ping"), paths.count("/pong")) == (1, 1)
    assert made.outcomes["redirect_loop"] >= 1
    assert sum(path.startswith("/hop") for path in paths) == 11
    assert made.refused["trap"]["count"] >= 1


def test_sizes_types_and_slowness_are_bounded(tmp_path: Path, sites: Callable[..., Site]) -> None:
    site = sites(
        fixed(
            {
                "/": html("/huge", "/slow", "/film", "/bomb", "/after", "/half"),
                "/huge": Reply(b"<p>" + b"x" * 65_000, length=ENDLESS),
                "/slow": Reply(b"late", wait=3.0),
                "/film": Reply(b"\0" * 65_000, headers={"Content-Type": "video/mp4"}, length=ENDLESS),
                "/bomb": Reply(
                    gzip.compress(b"<a href=/x>" + b" " * 60_000_000, 1),
                    headers={"Content-Encoding": "gzip"},
                ),
                "/after": html(text="still here"),
                "/half": Reply(b"not gzip", headers={"Content-Encoding": "gzip"}),
            }
        )
    )
    made = gather([f"{site.url}/"], tmp_path / "out", longest=400_000, timeout=1.0, retries=0)
    assert made.finished
    assert made.outcomes == {"new": 4, "cut": 1, "timeout": 1, "other_type": 1, "gone": 1}
    cut = next(
        about for kind, uri, _, body, about in records(made) if kind == "response" and uri.endswith("/huge")
    )
    assert cut.get_header("WARC-Truncated") == "length"
    assert site.sent["/huge"] < 20_000_000
    assert site.sent["/film"] < 20_000_000
    assert not any("/film" in uri for _, uri, *_ in records(made))


def test_budgets_hold_for_each_host(tmp_path: Path, sites: Callable[..., Site]) -> None:
    names = [f"/{number}" for number in range(30)]
    pages = fixed({"/": html(*names), **{name: html(text=name * 500) for name in names}})
    first, second = sites(pages), sites(pages)
    made = gather([f"{first.url}/", f"{second.url}/"], tmp_path / "out", budget={"pages": 7})
    assert host_row(made, first)["waiting"] > 0
    for site in (first, second):
        assert len([path for path in site.paths() if path != "/robots.txt"]) == 7
        assert host_row(made, site)["left_for"] == "pages"
    by_bytes = gather([f"{first.url}/"], tmp_path / "bytes", budget={"bytes": 5_000})
    assert host_row(by_bytes, first)["left_for"] == "bytes"
    assert 5_000 <= host_row(by_bytes, first)["bytes"] < 12_000
    by_time = gather([f"{first.url}/"], tmp_path / "time", delay=0.2, budget={"seconds": 1.0})
    assert host_row(by_time, first)["left_for"] == "seconds"
    assert 2 <= host_row(by_time, first)["pages"] <= 6


def test_a_second_crawl_asks_only_what_has_changed(tmp_path: Path, sites: Callable[..., Site]) -> None:
    state: dict[str, Any] = {"text": "old", "gone": False}

    def pages(path: str, headers: dict[str, str]) -> Reply | None:
        if path == "/":
            return html("/tagged", "/dated", "/plain", "/changing", "/leaving")
        if path == "/tagged":
            known = headers.get("if-none-match") == '"v1"'
            return Reply(b"", 304) if known else Reply(b"tagged" * 999, headers={"ETag": '"v1"'})
        if path == "/dated":
            since = "Sat, 01 Nov 2025 10:00:00 GMT"
            known = headers.get("if-modified-since") == since
            return Reply(b"", 304) if known else Reply(b"dated" * 999, headers={"Last-Modified": since})
        if path == "/plain":
            return html(text="never changes " * 99)
        if path == "/changing":
            new = html("/found-later") if state["text"] == "new" else html()
            return Reply(new.body + state["text"].encode(), headers={"ETag": f'"{state["text"]}"'})
        if path == "/leaving" and not state["gone"]:
            return html(text="leaving")
        return html(text="found later") if path == "/found-later" else None

    site = sites(pages)
    first = gather([f"{site.url}/"], tmp_path / "out")
    assert first.outcomes == {"new": 6}
    state.update(text="new", gone=True)
    second = gather([f"{site.url}/"], tmp_path / "out")
    assert second.number == 2
    assert second.outcomes == {"unchanged": 2, "same": 2, "changed": 1, "new": 1, "gone": 1}
    kinds = {
        uri.removeprefix(site.url): (kind, about)
        for kind, uri, _, _, about in records(second)
        if kind != "request"
    }
    profile = {
        path: about.get_header("WARC-Profile") for path, (kind, about) in kinds.items() if kind == "revisit"
    }
    assert profile == {
        "/tagged": "http://netpreserve.org/warc/1.1/revisit/server-not-modified",
        "/dated": "http://netpreserve.org/warc/1.1/revisit/server-not-modified",
        "/plain": "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest",
        "/": "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest",
    }
    full = {
        uri.removeprefix(site.url): about for kind, uri, _, _, about in records(first) if kind == "response"
    }
    for path in profile:
        about = kinds[path][1]
        for name, original in (("WARC-Refers-To-Date", "WARC-Date"), ("WARC-Payload-Digest",) * 2):
            assert about.get_header(name) == full[path].get_header(original)
    third = gather([f"{site.url}/"], tmp_path / "out")
    assert third.outcomes == {"unchanged": 2, "same": 4, "gone": 1}
    assert {payload for kind, _, _, payload, _ in records(third) if kind == "revisit"} == {b""}


def test_a_busy_answer_is_tried_again_when_the_host_says(tmp_path: Path, sites: Callable[..., Site]) -> None:
    asked: dict[str, int] = {}

    def pages(path: str, _headers: dict[str, str]) -> Reply | None:
        asked[path] = asked.get(path, 0) + 1
        if path == "/busy" and asked[path] == 1:
            return Reply(b"", 503, {"Retry-After": "1"})
        if path == "/broken":
            return Reply(b"no", 500)
        return html("/busy", "/broken") if path == "/" else (html(text="now") if path == "/busy" else None)

    site = sites(pages)
    made = gather([f"{site.url}/"], tmp_path / "out", retries=1)
    assert made.outcomes == {"new": 2, "http_500": 1}
    assert (asked["/busy"], asked["/broken"]) == (2, 2)
    moments = [moment for moment, path, _ in site.asked if path == "/busy"]
    assert moments[1] - moments[0] >= 1.0


def test_private_addresses_are_refused_also_behind_names_and_odd_spellings(
    tmp_path: Path, sites: Callable[..., Site]
) -> None:
    site = sites(fixed({"/": html(text="inside")}))
    port = site.server.server_port
    for seed in (
        "127.0.0.1",
        "localhost",
        "10.0.0.1",
        "169.254.169.254",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[fd00::1]",
    ):
        with pytest.raises(BadInput, match="private"):
            parse_plan({"seeds": [f"http://{seed}:{port}/"]})
    odd = ["2130706433", "0x7f.1", "127.1"]
    with contextlib.suppress(OSError):
        if socket.gethostbyname(socket.gethostname()).startswith(("127.", "10.", "172.", "192.168.")):
            odd.append(socket.gethostname())
    plan = parse_plan({"seeds": [f"http://{name}:{port}/" for name in odd], "delay": 0, "retries": 0})
    made = crawl(plan, tmp_path / "out")
    assert site.asked == []
    assert {row["left_for"] for row in made.hosts} == {"private_address"}
    assert not [kind for kind, *_ in records(made) if kind == "response"]


def test_it_never_leaves_the_domains(tmp_path: Path, sites: Callable[..., Site]) -> None:
    other = sites(fixed({"/": html(text="other")}), "127.0.0.2")
    same_host = sites(fixed({"/": html(text="another port")}))
    away = {
        "/": html(
            "/r",
            f"{other.url}/",
            f"{same_host.url}/",
            head=f'<base href="/"><meta http-equiv="refresh" content="0; url={other.url}/meta">',
        ),
        "/r": Reply(b"", 302, {"Location": f"{other.url}/redirected"}),
        "/robots.txt": Reply(f"Sitemap: {other.url}/map.xml".encode()),
    }
    site = sites(fixed(away))
    made = gather([f"{site.url}/"], tmp_path / "out")
    assert other.asked == same_host.asked == []
    assert made.outcomes == {"new": 1, "redirect_other_domain": 1}


def test_a_crawl_killed_again_and_again_loses_nothing(tmp_path: Path, sites: Callable[..., Site]) -> None:
    names = [f"/{number}" for number in range(80)]
    pages = {"/": html(*names), **{name: html(text=f"page {spelt(name)}") for name in names}}

    def slow(path: str, _headers: dict[str, str]) -> Reply | None:
        reply = pages.get(path)
        return reply and reply._replace(wait=0.01)

    site = sites(slow)
    out = tmp_path / "out"
    program = (
        "import sys; from pathlib import Path\n"
        "from l3_ylink.datakit.gather.crawl.plan import parse_plan\n"
        "from l3_ylink.datakit.gather.crawl.run import crawl\n"
        "plan = parse_plan({'seeds': [sys.argv[1]], 'private': True, 'delay': 0, 'connections': 4,\n"
        "                   'warc_bytes': 20_000})\n"
        "print('done', crawl(plan, Path(sys.argv[2])).outcomes)"
    )
    rng = random.Random(int(os.environ.get("OGAI_SEED", "7")))
    for _ in range(50 if SOAK else 3):
        before = len(site.asked)
        with subprocess.Popen(
            [sys.executable, "-c", program, f"{site.url}/", str(out)], stdout=subprocess.DEVNULL
        ) as process:
            deadline = time.monotonic() + 60
            target = before + rng.randrange(1, 30)
            while len(site.asked) < target and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
        time.sleep(0.3)  # the child dies with its parent
    made = gather([f"{site.url}/"], out, connections=4, warc_bytes=20_000)
    assert made.finished
    assert sum(made.outcomes.get(how, 0) for how in ("new", "same")) == 81
    if made.number == 1:
        answers = [uri for kind, uri, _, _, _ in records(made) if kind == "response"]
        assert sorted(set(answers)) == sorted(f"{site.url}{path}" for path in ["/robots.txt", "/", *names])
        assert len(answers) - answers.count(f"{site.url}/robots.txt") == 81  # and each once
        assert len(made.files) > 1
    assert not list(out.glob("*.open"))


def test_two_crawls_into_one_folder_and_folders_of_others_are_refused(
    tmp_path: Path, sites: Callable[..., Site]
) -> None:
    site = sites(fixed({"/": html(text="x")._replace(wait=2)}))
    out = tmp_path / "out"
    thread = threading.Thread(target=gather, args=([f"{site.url}/"], out))
    thread.start()
    while not site.asked:
        time.sleep(0.01)
    with pytest.raises(Conflict):
        gather([f"{site.url}/"], out)
    thread.join()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("x")
    with pytest.raises(BadInput, match="holds no crawl"):
        gather([f"{site.url}/"], tmp_path / "mine")
    for wrong in (["ftp://example.org/"], ["example.org"], ["http://user:word@example.org/"], []):
        with pytest.raises(BadInput):
            parse_plan({"seeds": wrong})
