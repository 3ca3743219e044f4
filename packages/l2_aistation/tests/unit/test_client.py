"""The client's words for what never reaches the platform, or reaches something else."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from l2_aistation._kit.problems import BadInput, Failed, NotFound, Unavailable
from l2_aistation.client import Aistation


class Stranger(BaseHTTPRequestHandler):
    """A server that is no aistation: a page for jobs, a list as an error; remembers what was asked."""

    asked: list[str] = []  # noqa: RUF012 (one server a test run)

    def do_GET(self) -> None:
        self.asked.append(self.path)
        text = b"<html>hello</html>" if self.path.endswith("/pool") else b"[]"
        self.send_response(200 if self.path.endswith("/pool") else 500)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_arguments: object) -> None:
        """Says nothing."""


@pytest.fixture
def stranger() -> Iterator[Aistation]:
    with HTTPServer(("127.0.0.1", 0), Stranger) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Aistation(f"http://127.0.0.1:{server.server_port}", "token") as client:
            yield client
        server.shutdown()


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("-inf"), dt.date(2026, 1, 1), b"x", {1, 2}, "\ud800", CIRCLE],
    ids=["nan", "infinity", "date", "bytes", "set", "surrogate", "circle"],
)
def test_a_spec_that_json_cannot_carry_is_refused(value: object) -> None:
    """YAML can say all of these."""
    with (
        Aistation("http://127.0.0.1:9", "token") as client,
        pytest.raises(BadInput, match="JSON cannot carry"),
    ):
        client.submit({"name": "x", "tasks": value})
    with pytest.raises(BadInput, match="JSON cannot carry"):
        client.put_queue("gold", weight=value)


def test_another_server_at_the_address_is_told(stranger: Aistation) -> None:
    with pytest.raises(Unavailable, match="no aistation answers") as caught:
        stranger.pool()
    assert "something else listens" in str(caught.value)
    with pytest.raises(Failed, match="answered 500"):
        stranger.queues()


@pytest.mark.parametrize("name", ["../pool", "a/b?c=d#e", "任务"])
def test_a_name_stays_one_part_of_the_path(stranger: Aistation, name: str) -> None:
    with pytest.raises((Failed, NotFound)):
        stranger.job(name)
    assert Stranger.asked[-1].startswith("/api/v1/jobs/")
    assert Stranger.asked[-1].removeprefix("/api/v1/jobs/").isascii()
    assert not set("/?#") & set(Stranger.asked[-1].removeprefix("/api/v1/jobs/"))


def test_an_address_or_a_token_that_is_none_is_told() -> None:
    with pytest.raises(BadInput, match="no address"):
        Aistation("http://127.0.0.1:abc", "token")
    with pytest.raises(Unavailable), Aistation("127.0.0.1:8472", "token") as client:
        client.pool()
    with pytest.raises(BadInput, match="token"):
        Aistation("http://127.0.0.1:9", "令牌")
