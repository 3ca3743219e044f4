"""Addresses and configuration of the private broker."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from l2_aistation._kit.problems import BadInput, Unavailable
from l2_aistation.broker import program, url_for_agents, urls
from l2_aistation.settings import Settings


@pytest.mark.parametrize(
    ("given", "redis", "celery"),
    [
        ("redis://:pw@10.0.0.1:6379/0", "redis://:pw@10.0.0.1:6379/0", "redis://:pw@10.0.0.1:6379/0"),
        ("rediss://10.0.0.1/1", "rediss://10.0.0.1/1", "rediss://10.0.0.1/1"),
        ("redis+socket:///run/b.sock", "unix:///run/b.sock", "redis+socket:///run/b.sock"),
        ("unix:///run/b.sock", "unix:///run/b.sock", "redis+socket:///run/b.sock"),
    ],
)
def test_one_address_in_two_spellings(given: str, redis: str, celery: str) -> None:
    assert (urls.for_redis(given), urls.for_celery(given)) == (redis, celery)


@pytest.mark.parametrize("url", ["amqp://x", "memory://", "sqla+sqlite:///x", "10.0.0.1:6379", ""])
def test_other_transports_are_refused(url: str) -> None:
    with pytest.raises(BadInput, match="not a Redis URL"):
        urls.for_redis(url)


def test_a_password_of_any_characters_comes_back() -> None:
    import redis

    url = urls.of_tcp("10.0.0.1", 7000, "a/b@c:d?e#f%")
    assert redis.ConnectionPool.from_url(url).connection_kwargs["password"] == "a/b@c:d?e#f%"


@pytest.mark.parametrize(
    ("text", "pair"), [("10.0.0.1", ("10.0.0.1", 8479)), ("10.0.0.1:99", ("10.0.0.1", 99))]
)
def test_where_it_listens(text: str, pair: tuple[str, int]) -> None:
    assert urls.listening(text, 8479) == pair


@pytest.mark.parametrize(
    "text", ["", ":99", "10.0.0.1:", "10.0.0.1:x", "10.0.0.1:0", "10.0.0.1:70000", "0.0.0.0"]
)
def test_where_it_does_not(text: str) -> None:
    with pytest.raises(BadInput, match="listen"):
        urls.listening(text, 8479)


def test_a_socket_needs_no_password_and_offers_no_port(tmp_path: Path) -> None:
    text = program.configuration(tmp_path, socket=tmp_path / "s", listen=None, password="")
    assert "port 0\n" in text
    assert "unixsocketperm 700" in text
    assert "appendonly yes" in text


def test_tcp_listens_on_one_address_with_a_password(tmp_path: Path) -> None:
    text = program.configuration(tmp_path, socket=None, listen=("10.0.0.1", 7000), password="pw")
    assert "bind 10.0.0.1\nport 7000\nrequirepass pw\n" in text


def test_without_any_server_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str, *_: Any) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(Unavailable) as caught:
        program.find()
    assert "l2-aistation[embedded]" in caught.value.do


def test_agents_are_told_when_there_is_no_broker_yet(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no broker has been started"):
        url_for_agents(Settings.load(home=tmp_path))


def test_a_given_broker_is_the_agents_too(tmp_path: Path) -> None:
    assert (
        url_for_agents(Settings.load(home=tmp_path, broker_url="redis://:p@10.0.0.1/0"))
        == "redis://:p@10.0.0.1/0"
    )
