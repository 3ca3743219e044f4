"""From sites to a data set: the command line crawls, a recipe reads the WARC files."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from l3_ylink.datakit.explain import documents
from l3_ylink.datakit.recipe import parse_recipe
from l3_ylink.datakit.run import run_recipe

POEM = "白日依山尽，黄河入海流。欲穷千里目，更上一层楼。"
PAGES = {
    "/": (
        "text/html",
        b"<p>The harbour has three pages.</p><a href='/zh'>1</a><a href='/notes'>2</a>",
    ),
    "/zh": ("text/html; charset=gb2312", f"<html><body><p>{POEM}</p></body></html>".encode("gb18030")),
    "/notes": ("text/plain", b"Plain notes about ropes and knots."),
}


@pytest.fixture
def site() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            kind, body = PAGES.get(self.path, ("text/plain", b"User-agent: *\nAllow: /\n"))
            self.send_response(200 if self.path in PAGES or self.path == "/robots.txt" else 404)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def ylink(*words: str) -> subprocess.CompletedProcess[str]:
    program = "from l3_ylink.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, "data", *words], capture_output=True, text=True, timeout=120
    )


def test_a_site_becomes_a_data_set_with_addresses_and_dates(site: str, tmp_path: Path) -> None:
    for name in ("scrapy", "protego", "warcio", "fastwarc"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}: pip install 'l3-ylink[gather]'")
    out = tmp_path / "site"
    done = ylink("gather", site, "--out", str(out), "--private", "--delay", "0", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["outcomes"] == {"new": 3}
    assert told["files"] == ["crawl-0001-00000.warc.gz"]
    recipe = parse_recipe(
        {
            "name": "site",
            "sources": [{"name": "site", "licence": "CC0-1.0", "url": site}],
            "steps": [{"step": "extract", "html": "visible"}, {"step": "clean"}],
        }
    )
    made = run_recipe(recipe, input_folder=out, out=tmp_path / "set")
    assert made.manifest.rows == 3
    _, rows = documents(tmp_path / "set", kept=True)
    assert {row["id"].partition("#")[0] for row in rows} == {"crawl-0001-00000.warc.gz"}
    import pyarrow.parquet as pq

    (part,) = (tmp_path / "set/text").glob("*.parquet")
    texts = pq.read_table(part).column("text").to_pylist()
    assert POEM in [text.strip() for text in texts]


def test_the_command_line_says_what_is_wrong(site: str, tmp_path: Path) -> None:
    refused = ylink("gather", site, "--out", str(tmp_path / "out"))
    assert refused.returncode == 2
    assert "private" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "out").exists()
    (tmp_path / "r.yaml").write_text(
        "name: x\nlicence: CC0-1.0\nmodel: {url: 'http://127.0.0.1:9/v1', name: m}\n"
        "method: {method: evolve, seeds: none.txt}\n"
    )
    missing = ylink("generate", str(tmp_path / "r.yaml"), "--out", str(tmp_path / "rows"), "--json")
    assert missing.returncode == 2
    assert "none.txt" in json.loads(missing.stderr)["title"] + json.loads(missing.stderr).get("field", "")
